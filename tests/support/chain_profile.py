"""A profile as tl-profile writes it, of a made-up network: (conv - relu) repeated - pool - flatten - fc."""

CHANNELS, SIDE, CLASSES = 4, 32, 10
BATCHES = [1, 8]


class _Chain:
    """Its graph, node by node; each reads the value before it."""

    def __init__(self, content):
        self.content, self.values, self.nodes, self.parameters = content, [], [], []
        self.value("input", [3, SIDE, SIDE])

    def value(self, name, shape):
        self.values.append({"name": name, "kind": "tensor", "dtype": "f32", "shape": shape, "batched": True,
                            "hash": f"{len(self.values) + 1:032x}"})

    def node(self, op, name, shape, weight=None, further=()):
        operands = [{"value": len(self.values) - 1}]
        if weight:
            operands += [{"parameter": len(self.parameters)}, {"none": True}]
            self.parameters.append({"name": name + ".weight", "dtype": "f32", "shape": weight, "content": self.content * 32})
        self.nodes.append({"op": op, "module": name, "inputs": [*operands, *further], "outputs": [len(self.values)]})
        self.value(name, shape)


def chain_profile(seconds, content="a", layers=1):
    """`seconds`: of each node for one record; `content`: a hexadecimal digit that stands for the weights. The layers are
    called conv, relu, conv1, relu1, ..."""
    ints = lambda *numbers: {"ints": list(numbers)}
    chain, shape = _Chain(content), [CHANNELS, SIDE, SIDE]
    for layer in range(layers):
        number = layer or ""
        weight = [CHANNELS, CHANNELS if layer else 3, 3, 3]
        chain.node("aten::conv2d", f"conv{number}", shape, weight, [ints(1, 1), ints(1, 1), ints(1, 1), {"int": 1}])
        chain.node("aten::relu", f"relu{number}", shape)
    chain.node("aten::adaptive_avg_pool2d", "pool", [CHANNELS, 1, 1], further=[ints(1, 1)])
    chain.node("aten::flatten", "flatten", [CHANNELS], further=[{"int": 1}, {"int": -1}])
    chain.node("aten::linear", "fc", [CLASSES], [CLASSES, CHANNELS])
    nodes = len(chain.nodes)
    return {
        "format": "tl-profile", "version": 1,
        "host": {"cpu": "made up", "cores": 2, "memory_bytes": 1 << 30, "blas": {"gflops": 50, "threads": 2},
                 "blas_slow": False, "memory_bandwidth": 1e10},
        "model": {
            "path": "model.pt", "file_digest": "0" * 32, "preprocess": {"kind": "image", "crop": [SIDE, SIDE]},
            "graph": {"values": chain.values, "nodes": chain.nodes, "parameters": chain.parameters, "constants": [],
                      "output": nodes},
            "measured": {
                "threads": 2, "batches": BATCHES, "whole_seconds": [nodes * seconds * b for b in BATCHES],
                "segments": [{"first": i, "last": i + 1, "seconds": [seconds * b for b in BATCHES],
                              "train_seconds": [3 * seconds * b for b in BATCHES],
                              "peak_bytes": [50000 * b for b in BATCHES]} for i in range(nodes)]}},
        "data": {"path": "photos", "records": 1000, "classes": 3, "bytes_per_record": 2000,
                 "read_seconds": 1e-5, "decode_seconds": 1e-3, "threads": 2}}
