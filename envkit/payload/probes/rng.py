"""Random streams for a seed, of torch, NumPy and Python. Section 1.4 of the probe list."""

import random

from probe import Probe


def torch_streams():
    """torch's generators: draws, inits and the generator's own state."""
    return [(name, _seeded(draw)) for name, draw in list(_draws().items()) + list(_inits().items())]


def _draws():
    import torch

    thirds = torch.tensor([0.1, 0.2, 0.3, 0.4])
    return {
        "rand": lambda: torch.rand(8),
        "rand_large": lambda: torch.rand(100),
        "rand_f64": lambda: torch.rand(8, dtype=torch.float64),
        "rand_f16": lambda: torch.rand(8, dtype=torch.float16),
        "rand_bf16": lambda: torch.rand(8, dtype=torch.bfloat16),
        "randn_small": lambda: torch.randn(8),
        "randn_16": lambda: torch.randn(16),
        "randn_large": lambda: torch.randn(100),
        "randn_f64": lambda: torch.randn(8, dtype=torch.float64),
        "randint": lambda: torch.randint(0, 1000, (8,)),
        "randint_negative": lambda: torch.randint(-5, 5, (8,)),
        "randint_i32": lambda: torch.randint(0, 100, (8,), dtype=torch.int32),
        "random_u8": lambda: torch.empty(8, dtype=torch.uint8).random_(),
        "randperm_10": lambda: torch.randperm(10),
        "randperm_1000": lambda: torch.randperm(1000),
        "randperm_100k": lambda: torch.randperm(100000),
        "uniform": lambda: torch.empty(8).uniform_(-1, 1),
        "normal_small": lambda: torch.empty(8).normal_(1, 2),
        "normal_large": lambda: torch.empty(100).normal_(1, 2),
        "normal_tensor": lambda: torch.normal(torch.arange(4.0), torch.ones(4)),
        "cauchy": lambda: torch.empty(8).cauchy_(),
        "log_normal": lambda: torch.empty(8).log_normal_(),
        "bernoulli_tensor": lambda: torch.bernoulli(torch.full((16,), 0.3)),
        "bernoulli_p": lambda: torch.empty(16).bernoulli_(0.3),
        "multinomial_replacement": lambda: torch.multinomial(thirds, 8, replacement=True),
        "multinomial": lambda: torch.multinomial(thirds, 3),
        "exponential": lambda: torch.empty(8).exponential_(),
        "geometric": lambda: torch.empty(8).geometric_(0.3),
        "poisson": lambda: torch.poisson(torch.full((8,), 3.0)),
        "generator": lambda: torch.rand(4, generator=torch.Generator().manual_seed(5)),
        "two_draws": lambda: (torch.rand(3), torch.randn(3), torch.rand(3)),
        "state": lambda: (torch.rand(3), torch.get_rng_state())[1],
        "fork_rng": lambda: _forked(torch),
        "big_seed": lambda: (torch.manual_seed(2**40 + 3), torch.rand(4))[1],
    }


def _inits():
    import torch
    from torch import nn

    return {
        "gamma": lambda: torch.distributions.Gamma(2.0, 1.0).sample((4,)),
        "beta": lambda: torch.distributions.Beta(2.0, 3.0).sample((4,)),
        "dropout": lambda: nn.functional.dropout(torch.ones(16), 0.5),
        "dropout2d": lambda: nn.functional.dropout2d(torch.ones(1, 8, 2, 2), 0.5),
        "gumbel": lambda: nn.functional.gumbel_softmax(torch.zeros(4), hard=True),
        "linear_init": lambda: _parameters(nn.Linear(3, 2)),
        "conv_init": lambda: _parameters(nn.Conv2d(3, 4, 3)),
        "embedding_init": lambda: _parameters(nn.Embedding(10, 4)),
        "lstm_init": lambda: _parameters(nn.LSTM(3, 2)),
        "mha_init": lambda: _parameters(nn.MultiheadAttention(8, 2)),
        "kaiming": lambda: nn.init.kaiming_normal_(torch.empty(8, 8)),
        "xavier": lambda: nn.init.xavier_uniform_(torch.empty(8, 8)),
        "orthogonal_signs": lambda: nn.init.orthogonal_(torch.empty(4, 4)).sign(),
        "trunc_normal": lambda: nn.init.trunc_normal_(torch.empty(32)),
    }


def _parameters(layer):
    return [parameter.detach() for parameter in layer.parameters()]


def _forked(torch):
    with torch.random.fork_rng(devices=[]):
        torch.rand(3)
    return torch.rand(3)


def randint_ranges():
    """randint over wider and wider ranges: seeds are drawn this way."""
    import torch

    powers = (8, 16, 20, 24, 27, 28, 29, 30, 31, 32, 33, 40, 48, 62)
    return [("2p%d" % k, _seeded(lambda k=k: torch.randint(0, 2**k, (8,)))) for k in powers]


def _seeded(draw):
    def run():
        import torch

        torch.manual_seed(0)
        return draw()

    return run


def numpy_streams():
    """NumPy's RandomState and Generator."""
    import numpy as np

    engines = ("MT19937", "PCG64", "Philox", "SFC64", "PCG64DXSM")
    cells = [("legacy_" + n, lambda d=d: d(np.random.RandomState(0))) for n, d in _legacy().items()]
    cells += [("generator_" + n, lambda d=d: d(np.random.default_rng(0))) for n, d in _modern(np).items()]
    cells += [(n, lambda n=n: np.random.Generator(getattr(np.random, n)(0)).random(4)) for n in engines]
    cells.append(("seed_sequence", lambda: np.random.SeedSequence(0).generate_state(4)))
    cells.append(("seed_sequence_spawn", lambda: np.random.SeedSequence(0).spawn(2)[1].generate_state(4)))
    return cells


def _legacy():
    return {
        "rand": lambda r: r.rand(8),
        "randn": lambda r: r.randn(8),
        "randint": lambda r: r.randint(0, 1000, 8),
        "randint_2p31": lambda r: r.randint(0, 2**31 - 1, 8),
        "permutation": lambda r: r.permutation(10),
        "shuffle": _shuffled,
        "choice": lambda r: r.choice(10, 5, replace=False),
        "choice_p": lambda r: r.choice(4, 8, p=[0.1, 0.2, 0.3, 0.4]),
        "normal": lambda r: r.normal(1, 2, 8),
        "uniform": lambda r: r.uniform(-1, 1, 8),
        "beta": lambda r: r.beta(2, 3, 8),
        "poisson": lambda r: r.poisson(3, 8),
        "binomial": lambda r: r.binomial(10, 0.3, 8),
        "exponential": lambda r: r.exponential(2, 8),
        "gamma": lambda r: r.gamma(2, 1, 8),
        "laplace": lambda r: r.laplace(0, 1, 8),
        "multinomial": lambda r: r.multinomial(10, [0.2, 0.3, 0.5]),
        "dirichlet": lambda r: r.dirichlet([1, 2, 3]),
        "random_integers": lambda r: r.random_integers(0, 9, 8),
        "bytes": lambda r: r.bytes(8),
    }


def _modern(np):
    return {
        "random": lambda g: g.random(8),
        "random_f32": lambda g: g.random(8, dtype="float32"),
        "integers": lambda g: g.integers(0, 1000, 8),
        "integers_2p31": lambda g: g.integers(0, 2**31, 8),
        "integers_u8": lambda g: g.integers(0, 255, 8, dtype="uint8"),
        "standard_normal": lambda g: g.standard_normal(8),
        "standard_normal_f32": lambda g: g.standard_normal(8, dtype="float32"),
        "normal": lambda g: g.normal(1, 2, 8),
        "uniform": lambda g: g.uniform(-1, 1, 8),
        "permutation": lambda g: g.permutation(10),
        "permuted": lambda g: g.permuted(np.arange(10)),
        "shuffle": _shuffled,
        "choice": lambda g: g.choice(10, 5, replace=False),
        "choice_p": lambda g: g.choice(4, 8, p=[0.1, 0.2, 0.3, 0.4]),
        "geometric": lambda g: g.geometric(0.3, 8),
        "poisson": lambda g: g.poisson(3, 8),
        "beta": lambda g: g.beta(2, 3, 8),
        "spawn": lambda g: g.spawn(1)[0].random(2),
    }


def _shuffled(state):
    values = list(range(10))
    state.shuffle(values)
    return values


def python_streams():
    """Python's random module."""
    draws = {
        "random": lambda r: [r.random() for _ in range(4)],
        "randint": lambda r: [r.randint(0, 1000) for _ in range(4)],
        "shuffle": _shuffled,
        "shuffle_function": lambda r: r.shuffle([1, 2, 3], r.random),
        "sample": lambda r: r.sample(range(10), 4),
        "sample_list": lambda r: r.sample(list("abcdef"), 3),
        "choice": lambda r: [r.choice("abc") for _ in range(4)],
        "choices": lambda r: r.choices(range(10), k=4),
        "choices_weights": lambda r: r.choices("abc", weights=[1, 2, 3], k=4),
        "gauss": lambda r: [r.gauss(0, 1) for _ in range(4)],
        "normalvariate": lambda r: r.normalvariate(0, 1),
        "uniform": lambda r: [r.uniform(-1, 1) for _ in range(4)],
        "betavariate": lambda r: r.betavariate(2, 3),
        "expovariate": lambda r: r.expovariate(2.0),
        "triangular": lambda r: r.triangular(0, 1, 0.5),
        "gammavariate": lambda r: r.gammavariate(2, 1),
        "getrandbits": lambda r: r.getrandbits(64),
        "randbytes": lambda r: r.randbytes(4),
        "randrange": lambda r: r.randrange(0, 100, 7),
        "sample_set": lambda r: r.sample({1, 2, 3}, 2),
        "randrange_float": lambda r: r.randrange(10.0),
        "seed_str": lambda r: (r.seed("text"), r.random())[1],
        "seed_bytes": lambda r: (r.seed(b"text"), r.random())[1],
        "seed_float": lambda r: (r.seed(1.5), r.random())[1],
        "seed_tuple": lambda r: (r.seed((1, 2)), r.random())[1],
    }
    return [(name, lambda draw=draw: draw(random.Random(0))) for name, draw in draws.items()]


PROBES = [
    Probe("rng.torch", torch_streams),
    Probe("rng.randint_ranges", randint_ranges),
    Probe("rng.numpy", numpy_streams),
    Probe("rng.python", python_streams),
]
