#!/usr/bin/python3
"""tl-train against a training loop in PyTorch: the same start, data and order give the same losses and the
same final parameters. Usage: train_test.py TL_TRAIN"""
import ctypes, json, struct, subprocess, sys, tempfile
import numpy as np
import torch
from torch import nn
from torch.nn import functional

TL_TRAIN = sys.argv[1]
RECORDS, CLASSES, BATCH, EPOCHS, SEED = 101, 3, 16, 4, 5  # the last batch is short

xxhash = ctypes.CDLL("libxxhash.so.0")


class Hash128(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


xxhash.XXH3_128bits.restype = Hash128
xxhash.XXH3_64bits.restype = ctypes.c_uint64


def digest(data):
    value = xxhash.XXH3_128bits(data, ctypes.c_size_t(len(data)))
    return value.high, value.low


def mix(seed, hash_):
    data = struct.pack("<QQQ", seed, *hash_)
    return xxhash.XXH3_64bits(data, ctypes.c_size_t(len(data)))


class Net(nn.Module):
    """A convolution and a batch-norm below, so that statistics train too."""

    def __init__(self):
        super().__init__()
        # No bias: below a batch-norm its gradient is rounding alone, which Adam turns into whole steps.
        self.conv = nn.Conv2d(2, 5, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(5)
        self.hidden = nn.Linear(5 * 9, 7)
        self.out = nn.Linear(7, CLASSES)

    def forward(self, x):
        x = functional.max_pool2d(functional.relu(self.norm(self.conv(x))), 2)
        return self.out(torch.tanh(self.hidden(x.flatten(1))))


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x):
        return x + functional.relu(self.conv(x))


class Blocks(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(2, 6, 3, padding=1)
        self.blocks = nn.Sequential(*[Residual(6) for _ in range(3)])
        self.out = nn.Linear(6, CLASSES)

    def forward(self, x):
        return self.out(self.blocks(functional.relu(self.stem(x))).mean((2, 3)))


class Transferred(nn.Module):
    """Blocks with adapters behind the last ones and a head on some blocks, as tl-train's options describe it. `start` has
    the parameters by the names that tl-train gives them: those of what is new are drawn by tl-train."""

    def __init__(self, start, features, added):
        super().__init__()
        net = Blocks()
        self.stem, self.blocks, self.features, self.added = net.stem, net.blocks, features, added
        widths = {name.split(".")[1]: value.shape[0] for name, value in start.items() if name.endswith(".down.weight")}
        self.adapters = nn.ModuleDict({key: nn.ModuleDict({"down": nn.Conv2d(6, width, 1), "up": nn.Conv2d(width, 6, 1)})
                                       for key, width in widths.items()})
        self.head = nn.ModuleList([nn.Linear(start["head.0.weight"].shape[1], CLASSES)])
        self.load_state_dict({name: value for name, value in start.items() if not name.startswith("out.")})

    def forward(self, x):
        x, pooled = functional.relu(self.stem(x)), []
        adapters = [None] * (len(self.blocks) - len(self.adapters)) + [self.adapters[key] for key in sorted(self.adapters)]
        for number, (block, adapter) in enumerate(zip(self.blocks, adapters)):
            x = block(x)
            if adapter:
                x = x + adapter["up"](functional.relu(adapter["down"](x)))
            if number in self.features:
                pooled.append(x.mean((2, 3)))
        return self.head[0](sum(pooled) if self.added else torch.cat(pooled, 1))


def write_safetensors(path, tensors):
    types = {np.dtype("float32"): "F32", np.dtype("int64"): "I64"}
    header, data = {}, b""
    for name, value in tensors.items():
        header[name] = {"dtype": types[value.dtype], "shape": value.shape, "data_offsets": [len(data), len(data) + value.nbytes]}
        data += value.tobytes()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def orders(inputs, validation):
    """Training and validation records of each epoch, as the documentation states them."""
    hashes = [digest(row.tobytes()) for row in inputs]
    arrival = sorted(range(RECORDS), key=lambda i: mix(SEED, digest(f"data/{i}".encode())))
    validating = [i for i in arrival if (mix(SEED, hashes[i]) >> 11) * 2.0**-53 < validation]
    training = [i for i in arrival if i not in set(validating)]
    epochs = [training] + [sorted(training, key=lambda i: mix(SEED + e, hashes[i])) for e in range(1, EPOCHS)]
    return epochs, validating


def reference(net, inputs, labels, case):
    options = case["options"]
    trained = [p for name, p in net.named_parameters() if name.startswith(case.get("trains", ""))]
    assert trained
    for name, parameter in net.named_parameters():
        parameter.requires_grad = name.startswith(case.get("trains", ""))
    optimizer = case["optimizer"](trained)
    epochs, validating = orders(inputs, case["validation"])
    x, y = torch.from_numpy(inputs), torch.from_numpy(labels)
    weights = None
    if options.get("class-weights") == "balanced":
        counts = np.bincount(labels[epochs[0]], minlength=CLASSES)
        weights = torch.tensor(len(epochs[0]) / (CLASSES * counts), dtype=torch.float32)
    losses, steps = [], 0
    for epoch, order in enumerate(epochs):
        net.train(case.get("trains", "") == "")  # a batch-norm under frozen layers stays in evaluation mode
        sums = total = 0.0
        for start in range(0, len(order), BATCH):
            batch = order[start : start + BATCH]
            for group in optimizer.param_groups:
                group["lr"] = case["lr"] * case["schedule"](epoch) * min(1, (steps + 1) / max(1, options.get("warmup", 1)))
            loss = functional.cross_entropy(net(x[batch]), y[batch], weights, label_smoothing=options.get("label-smoothing", 0))
            optimizer.zero_grad()
            loss.backward()
            if "clip-norm" in options:
                nn.utils.clip_grad_norm_(trained, options["clip-norm"])
            optimizer.step()
            steps += 1
            weight = float(weights[y[batch]].sum()) if weights is not None else len(batch)
            sums += float(loss) * weight
            total += weight
        losses.append(sums / total)
        net.eval()
        if validating:
            with torch.no_grad():
                losses.append(float(functional.cross_entropy(net(x[validating]), y[validating])))
    return losses


def ours(folder, case):
    options = [f"--{key}={value}" for key, value in case["options"].items()]
    scheme = case.get("scheme") or ["--train", "^" + case.get("trains", "")]
    command = [TL_TRAIN, "--model", f"{folder}/net.pt", "--data", f"{folder}/data.safetensors", "--preprocess", "tensor",
               *scheme, "-o", f"{folder}/run", "--force", "--quiet", "--epochs", str(EPOCHS),
               "--batch", str(BATCH), "--seed", str(SEED), "--lr", str(case["lr"]), "--validation", str(case["validation"])]
    subprocess.run(command + options, check=True)
    losses = []
    for line in map(json.loads, open(f"{folder}/run/metrics.jsonl")):
        if line["event"] == "epoch":
            losses += [line["train"]["loss"]] + ([line["validation"]["loss"]] if line["validation"] else [])
    return losses, torch.jit.load(f"{folder}/run/model.pt")


CASES = [
    {"lr": 0.1, "options": {"optimizer": "sgd", "momentum": 0}, "optimizer": lambda p: torch.optim.SGD(p, 1)},
    {"lr": 0.05, "options": {"optimizer": "sgd", "weight-decay": 0.01, "schedule": "cosine"},
     "optimizer": lambda p: torch.optim.SGD(p, 1, momentum=0.9, weight_decay=0.01),
     "schedule": lambda e: (1 + np.cos(np.pi * e / EPOCHS)) / 2},
    {"lr": 0.01, "options": {"optimizer": "adam", "weight-decay": 0.02, "warmup": 9},
     "optimizer": lambda p: torch.optim.Adam(p, 1, weight_decay=0.02)},
    {"lr": 0.01, "options": {"optimizer": "adamw", "schedule": "step:2:0.5", "clip-norm": 0.5},
     "optimizer": lambda p: torch.optim.AdamW(p, 1, weight_decay=0.01), "schedule": lambda e: 0.5 ** (e // 2)},
    {"lr": 0.02, "options": {"optimizer": "sgd", "class-weights": "balanced", "label-smoothing": 0.1},
     "optimizer": lambda p: torch.optim.SGD(p, 1, momentum=0.9)},
    {"lr": 0.05, "trains": "out", "options": {"optimizer": "adam"}, "optimizer": lambda p: torch.optim.Adam(p, 1)},
    {"lr": 0.05, "trains": "hidden", "validation": 0, "options": {"optimizer": "adam"},
     "optimizer": lambda p: torch.optim.Adam(p, 1)},
]
NEW = ("adapters.", "head.")
SCHEMES = [
    {"scheme": ["--head", "linear", "--features", "blocks.0+blocks.2"], "features": [0, 2], "trains": NEW},
    {"scheme": ["--head", "linear", "--features", "sum:blocks.1+blocks.2"], "features": [1, 2], "added": True, "trains": NEW},
    {"scheme": ["--head", "linear", "--adapters", "3:2"], "features": [2], "trains": NEW},
    {"scheme": ["--head", "linear", "--adapters", "2:1", "--features", "blocks.1+blocks.2"], "features": [1, 2], "trains": NEW},
    {"scheme": ["--head", "linear", "--unfreeze", "2"], "features": [2], "trains": ("blocks.1", "blocks.2", "head.")},
]


def compare(folder, net, case, name):
    expected = reference(net, inputs, labels, case)
    found, model = ours(folder, case)
    worst = max(abs(a - b) for a, b in zip(expected, found))
    assert len(expected) == len(found) and worst < 1e-5, (name, worst, expected, found)
    if case["validation"] == 0:  # the file has the last epoch, as the reference does
        with torch.no_grad():
            assert torch.allclose(model(torch.from_numpy(inputs)), net(torch.from_numpy(inputs)), atol=1e-4)
    print("ok", name, f"{worst:.1e}")


def trace(net, folder):
    torch.jit.trace(net, torch.from_numpy(inputs[:2])).save(f"{folder}/net.pt")


torch.set_num_threads(1)
generator = np.random.default_rng(1)
labels = (np.arange(RECORDS) ** 2 % 7 % CLASSES).astype("int64")
inputs = generator.normal(0, 1, (RECORDS, 2, 6, 6)).astype("float32") + labels[:, None, None, None] * 0.5
inputs = inputs.astype("float32")
with tempfile.TemporaryDirectory() as folder:
    write_safetensors(f"{folder}/data.safetensors", {"input": inputs, "labels": labels})
    for case in CASES:
        case = {"validation": 0.25, "schedule": lambda e: 1.0, **case}
        torch.manual_seed(2)
        net = Net().eval()
        trace(net, folder)
        compare(folder, net, case, case["options"])
    torch.manual_seed(3)
    trace(Blocks().eval(), folder)
    for case in SCHEMES:
        case = {"lr": 0.02, "validation": 0, "schedule": lambda e: 1.0, "options": {"optimizer": "adam"},
                "optimizer": lambda p: torch.optim.Adam(p, 1), **case}
        start = ours(folder, {**case, "lr": 1e-30})[1].state_dict()  # steps too small to change anything
        compare(folder, Transferred(start, case["features"], case.get("added", False)), case, case["scheme"])
