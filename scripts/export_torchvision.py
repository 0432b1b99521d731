#!/usr/bin/python3
"""Exports a network as the TorchScript file that the tl programs read.

The programs never run Python; this is how a network gets from Python to them. It needs Debian's
python3-torchvision and downloads nothing: weights are random (--seed) or come from a file (--weights).

Examples:
  export_torchvision.py --list
  export_torchvision.py resnet18 -o resnet18.pt
  export_torchvision.py resnet50 --weights resnet50-11ad3fa6.pth -o resnet50.pt
  export_torchvision.py small_resnet --input 1x28x28 --classes 5 --seed 1 -o backbone.pt
"""

import argparse
import io
import os
import sys
import tempfile
import warnings

import torch
import torchvision.models as tv
from torch import nn
from torchvision.models import densenet, efficientnet, mobilenetv3, resnet, swin_transformer, vgg

VOCABULARY = 1000  # token ids of text_transformer

# Fused operators without a gradient: a file that holds one cannot be fine-tuned.
FUSED = ("_native_multi_head_attention", "_transformer_encoder_layer_fwd")


class SmallResNet(nn.Module):
    """ResNet of basic blocks without the pooling at its start, for pictures of 28 to 64 pixels."""

    def __init__(self, channels, classes, widths=(16, 32, 64), blocks=1):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, widths[0], 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(widths[0])
        self.relu = nn.ReLU(inplace=True)
        self.layer1 = self._layer(widths[0], widths[0], blocks, 1)
        self.layer2 = self._layer(widths[0], widths[1], blocks, 2)
        self.layer3 = self._layer(widths[1], widths[2], blocks, 2)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(widths[2], classes)

    @staticmethod
    def _layer(inputs, outputs, blocks, stride):
        shortcut = None
        if stride != 1 or inputs != outputs:
            shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))
        first = resnet.BasicBlock(inputs, outputs, stride, shortcut)
        return nn.Sequential(first, *(resnet.BasicBlock(outputs, outputs) for _ in range(blocks - 1)))

    def forward(self, x):
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.fc(torch.flatten(self.avgpool(x), 1))


class TinyResNet18(resnet.ResNet):
    """ResNet-18 with one block a stage and an eighth of its channels."""

    def __init__(self, classes):
        super().__init__(resnet.BasicBlock, [1, 1, 1, 1])
        self.conv1 = nn.Conv2d(3, 8, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.fc = nn.Linear(64, classes)

    def _make_layer(self, block, planes, *arguments, **options):
        if planes == 64:
            self.inplanes = 8
        return super()._make_layer(block, planes // 8, *arguments, **options)


class TinyVGG(nn.Module):
    """VGG and AlexNet in small: convolutions with pooling, then dropout and linear layers."""

    def __init__(self, channels, classes):
        super().__init__()
        layers = vgg.make_layers([8, "M", 16, "M", 16, 16, "M"])
        layers[0] = nn.Conv2d(channels, 8, 3, padding=1)
        self.features = layers
        self.avgpool = nn.AdaptiveAvgPool2d(2)
        self.classifier = nn.Sequential(
            nn.Dropout(), nn.Linear(64, 32), nn.ReLU(inplace=True), nn.Dropout(), nn.Linear(32, classes)
        )

    def forward(self, x):
        return self.classifier(torch.flatten(self.avgpool(self.features(x)), 1))


class TextTransformer(nn.Module):
    """Token ids (batch, length) to classes: embedding, transformer encoder, mean over the tokens."""

    def __init__(self, length, classes, width=32, heads=2, layers=2):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.position = nn.Parameter(torch.randn(1, length, width) * 0.02)
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers)
        self.classifier = nn.Linear(width, classes)

    def forward(self, tokens):
        x = self.encoder(self.embedding(tokens) + self.position)
        return self.classifier(x.mean(dim=1))


def torchvision(function):
    return lambda shape, classes: function(weights=None, num_classes=classes)


def tiny_resnet(shape, classes):
    return tv.ResNet(resnet.Bottleneck, [1, 1, 1, 1], classes, width_per_group=16)


def tiny_densenet(shape, classes):
    return densenet.DenseNet(8, (2, 2, 2, 2), 16, num_classes=classes)


def tiny_mobilenet_v3(shape, classes):
    setting, last = mobilenetv3._mobilenet_v3_conf("mobilenet_v3_small", width_mult=0.25)
    return tv.MobileNetV3(setting, last // 8, num_classes=classes)


def tiny_efficientnet(shape, classes):
    setting, _ = efficientnet._efficientnet_conf("efficientnet_b0", width_mult=0.25, depth_mult=0.3)
    return tv.EfficientNet(setting, 0.2, num_classes=classes, last_channel=64)


def tiny_vit(shape, classes):
    return tv.VisionTransformer(shape[1], shape[1] // 4, 2, 2, 32, 64, num_classes=classes)


def tiny_swin(shape, classes):
    return swin_transformer.SwinTransformer([4, 4], 16, [2, 2], [2, 2], [4, 4], num_classes=classes)


PHOTO, SMALL = (3, 224, 224), (3, 32, 32)

# name: (constructor(input shape, classes), input shape, classes)
ARCHITECTURES = {
    name: (torchvision(getattr(tv, name)), PHOTO, 1000)
    for name in (
        "alexnet", "vgg11", "vgg16", "resnet18", "resnet50", "densenet121", "mobilenet_v2",
        "mobilenet_v3_small", "efficientnet_b0", "squeezenet1_0", "vit_b_16", "swin_t",
    )
}  # fmt: skip
ARCHITECTURES.update(
    small_resnet=(lambda shape, classes: SmallResNet(shape[0], classes), SMALL, 10),
    text_transformer=(lambda shape, classes: TextTransformer(shape[0], classes), (16,), 2),
    tiny_vgg=(lambda shape, classes: TinyVGG(shape[0], classes), SMALL, 10),
    tiny_resnet=(tiny_resnet, SMALL, 10),
    tiny_resnet18=(lambda shape, classes: TinyResNet18(classes), SMALL, 10),
    tiny_densenet=(tiny_densenet, SMALL, 10),
    tiny_mobilenet_v2=(lambda shape, classes: tv.MobileNetV2(classes, width_mult=0.25), SMALL, 10),
    tiny_mobilenet_v3=(tiny_mobilenet_v3, SMALL, 10),
    tiny_efficientnet=(tiny_efficientnet, SMALL, 10),
    tiny_vit=(tiny_vit, SMALL, 10),
    tiny_swin=(tiny_swin, SMALL, 10),
)


def example(shape, batch):
    """A random batch: token ids for a shape of one dimension, else pictures."""
    generator = torch.Generator().manual_seed(batch)
    if len(shape) == 1:
        return torch.randint(VOCABULARY, (batch, *shape), generator=generator)
    return torch.randn(batch, *shape, generator=generator)


def randomise(network, statistics):
    """Replaces what would hide a mistake: torchvision fills ViT's head with zeros, so that every
    output is equal; with `statistics`, batch-norm layers stop being the identity as well."""
    for module in network.modules():
        if isinstance(module, nn.Linear) and not module.weight.any():
            module.reset_parameters()
        if statistics and isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.running_mean, 0, 0.1)
            nn.init.uniform_(module.running_var, 0.5, 1.5)
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias, 0, 0.1)


def build(arguments, shape, classes):
    torch.manual_seed(arguments.seed)
    network = ARCHITECTURES[arguments.architecture][0](shape, classes)
    if arguments.weights:
        network.load_state_dict(torch.load(arguments.weights, map_location="cpu"))
    else:
        randomise(network, arguments.random_statistics)
    return network.eval()


def export(network, shape, script):
    """The network as TorchScript, in evaluation mode and checked at another batch size.

    Gradients stay enabled while tracing: with them off, evaluation mode takes a fused attention
    path, and what is recorded cannot be trained. trace's own check turns them off, so it cannot be
    used; comparing outputs does its work."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on sizes that become constants; checked below instead
        if script:
            exported = torch.jit.script(network)
        else:
            exported = torch.jit.trace(network, example(shape, 2), check_trace=False)
    if not script:
        text = str(exported.inlined_graph)
        fused = [name for name in FUSED if name in text]
        if fused:
            raise SystemExit(f"error: the trace holds {fused[0]}, which has no gradient")
    for batch in (1, 3):
        inputs = example(shape, batch)
        expected, actual = network(inputs), exported(inputs)
        if not torch.allclose(expected, actual, rtol=1e-3, atol=1e-4):
            raise SystemExit(f"error: the exported network differs from the original at batch size {batch}")
    return exported


def write(exported, path):
    """To stdout for "-"; else the file appears whole or not at all."""
    buffer = io.BytesIO()
    torch.jit.save(exported, buffer)
    if path == "-":
        sys.stdout.buffer.write(buffer.getbuffer())
        return
    folder = os.path.dirname(path) or "."
    os.makedirs(folder, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=folder, prefix=".export-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(buffer.getbuffer())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def parse_shape(text):
    try:
        shape = tuple(int(part) for part in text.split("x"))
    except ValueError:
        shape = ()
    if len(shape) not in (1, 3) or min(shape) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not like 3x224x224 (or 64, for tokens)")
    return shape


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("architecture", nargs="?", choices=ARCHITECTURES, metavar="NAME", help="one of --list")
    parser.add_argument("-o", "--output", metavar="FILE", help="output file, - for stdout (NAME.pt)")
    parser.add_argument("--list", action="store_true", help="print every name with its input and classes")
    parser.add_argument("--script", action="store_true", help="torch.jit.script instead of trace")
    parser.add_argument("--seed", type=int, default=0, help="of the random weights (0)")
    parser.add_argument("--random-statistics", action="store_true",
                        help="random batch-norm statistics too, so that a test sees them used")  # fmt: skip
    parser.add_argument("--weights", metavar="FILE", help="a state_dict written by torch.save")
    parser.add_argument("--classes", type=int, help="size of the output")
    parser.add_argument("--input", type=parse_shape, metavar="CxHxW", help="shape of one record")
    arguments = parser.parse_args()
    if not arguments.list and not arguments.architecture:
        parser.error("a NAME is missing (see --list)")
    return arguments


def main():
    arguments = parse_arguments()
    if arguments.list:
        for name, (_, shape, classes) in ARCHITECTURES.items():
            print(f"{name:<20} {'x'.join(map(str, shape)):>10} {classes:>5}")
        return
    _, shape, classes = ARCHITECTURES[arguments.architecture]
    shape, classes = arguments.input or shape, arguments.classes or classes
    network = build(arguments, shape, classes)
    write(export(network, shape, arguments.script), arguments.output or arguments.architecture + ".pt")


if __name__ == "__main__":
    main()
