"""Random streams for a seed, of torch, NumPy and Python. Section 1.4 of the probe list."""

import random


def torch_streams():
    """torch's generators: draws, inits and the generator's own state."""
    import torch
    from torch import nn

    draws = {
        "rand": lambda: torch.rand(8),
        "rand_f64": lambda: torch.rand(8, dtype=torch.float64),
        "rand_f16": lambda: torch.rand(8, dtype=torch.float16),
        "rand_bf16": lambda: torch.rand(8, dtype=torch.bfloat16),
        "randn_small": lambda: torch.randn(8),
        "randint": lambda: torch.randint(0, 1000, (8,)),
        "randint_2p16": lambda: torch.randint(0, 2**16, (8,)),
        "randint_2p31": lambda: torch.randint(0, 2**31, (8,)),
        "randint_2p40": lambda: torch.randint(0, 2**40, (8,)),
        "randperm_10": lambda: torch.randperm(10),
        "randperm_1000": lambda: torch.randperm(1000),
        "uniform": lambda: torch.empty(8).uniform_(-1, 1),
        "normal_small": lambda: torch.empty(8).normal_(1, 2),
        "bernoulli_tensor": lambda: torch.bernoulli(torch.full((16,), 0.3)),
        "bernoulli_p": lambda: torch.empty(16).bernoulli_(0.3),
        "multinomial_replacement": lambda: torch.multinomial(torch.tensor([0.1, 0.2, 0.7]), 8, replacement=True),
        "multinomial": lambda: torch.multinomial(torch.tensor([0.1, 0.2, 0.3, 0.4]), 3),
        "exponential": lambda: torch.empty(8).exponential_(),
        "geometric": lambda: torch.empty(8).geometric_(0.3),
        "poisson": lambda: torch.poisson(torch.full((8,), 3.0)),
        "dropout": lambda: nn.functional.dropout(torch.ones(16), 0.5),
        "linear_init": lambda: [parameter.detach() for parameter in nn.Linear(3, 2).parameters()],
        "generator": lambda: torch.rand(4, generator=torch.Generator().manual_seed(5)),
        "state": lambda: (torch.rand(3), torch.get_rng_state())[1],
    }
    return [(name, _seeded(draw)) for name, draw in draws.items()]


def _seeded(draw):
    def run():
        import torch

        torch.manual_seed(0)
        return draw()

    return run


def numpy_streams():
    """NumPy's RandomState and Generator."""
    import numpy as np

    legacy = {
        "rand": lambda r: r.rand(8),
        "randn": lambda r: r.randn(8),
        "randint": lambda r: r.randint(0, 1000, 8),
        "permutation": lambda r: r.permutation(10),
        "shuffle": _shuffled,
        "choice": lambda r: r.choice(10, 5, replace=False),
        "normal": lambda r: r.normal(1, 2, 8),
        "uniform": lambda r: r.uniform(-1, 1, 8),
        "beta": lambda r: r.beta(2, 3, 8),
        "poisson": lambda r: r.poisson(3, 8),
    }
    modern = {
        "random": lambda g: g.random(8),
        "random_f32": lambda g: g.random(8, dtype="float32"),
        "integers": lambda g: g.integers(0, 1000, 8),
        "standard_normal": lambda g: g.standard_normal(8),
        "permutation": lambda g: g.permutation(10),
        "permuted": lambda g: g.permuted(np.arange(10)),
        "choice": lambda g: g.choice(10, 5, replace=False),
        "geometric": lambda g: g.geometric(0.3, 8),
        "spawn": lambda g: g.spawn(1)[0].random(2),
    }
    cells = [("legacy_" + n, lambda d=d: d(np.random.RandomState(0))) for n, d in legacy.items()]
    cells += [("generator_" + n, lambda d=d: d(np.random.default_rng(0))) for n, d in modern.items()]
    cells.append(("seed_sequence", lambda: np.random.SeedSequence(0).generate_state(4)))
    return cells


def _shuffled(state):
    values = list(range(10))
    state.shuffle(values)
    return values


def python_streams():
    """Python's random module."""
    draws = {
        "random": lambda r: [r.random() for _ in range(4)],
        "randint": lambda r: [r.randint(0, 1000) for _ in range(4)],
        "shuffle": lambda r: _python_shuffled(r),
        "sample": lambda r: r.sample(range(10), 4),
        "choices": lambda r: r.choices(range(10), k=4),
        "gauss": lambda r: [r.gauss(0, 1) for _ in range(4)],
        "uniform": lambda r: [r.uniform(-1, 1) for _ in range(4)],
        "betavariate": lambda r: r.betavariate(2, 3),
        "getrandbits": lambda r: r.getrandbits(64),
        "randrange": lambda r: r.randrange(0, 100, 7),
        "sample_set": lambda r: r.sample({1, 2, 3}, 2),
        "randrange_float": lambda r: r.randrange(10.0),
        "seed_str": lambda r: (r.seed("text"), r.random())[1],
    }
    return [(name, lambda draw=draw: draw(random.Random(0))) for name, draw in draws.items()]


def _python_shuffled(source):
    values = list(range(10))
    source.shuffle(values)
    return values


PROBES = [("rng.torch", torch_streams), ("rng.numpy", numpy_streams), ("rng.python", python_streams)]
