"""Arithmetic of torch: exact over small integers, to a tolerance over full mantissas. Section 1.6 of the probe list."""

from probe import Probe


def _integers(*shape):
    """Small integers as float32: every partial sum stays below 2**24."""
    import torch

    return (_count(shape) % 7 - 3).to(torch.float32).reshape(shape)


def _full(*shape):
    """Numbers that use the whole mantissa: k/1013 - 0.4987."""
    import torch

    return (_count(shape).to(torch.float64) / 1013 - 0.4987).to(torch.float32).reshape(shape)


def _count(shape):
    import torch

    size = 1
    for part in shape:
        size *= part
    return torch.arange(size)


def _products(numbers):
    """Products, sums and a convolution over inputs of one kind."""
    import torch

    a, b, v = numbers(16, 24), numbers(24, 8), numbers(24)
    image, kernel = numbers(1, 3, 8, 8), numbers(4, 3, 3, 3)
    return {
        "matmul": lambda: a @ b,
        "mv": lambda: a @ v,
        "dot": lambda: v.dot(v),
        "bmm": lambda: torch.bmm(numbers(2, 4, 5), numbers(2, 5, 3)),
        "linear": lambda: torch.nn.functional.linear(a, b.t(), numbers(8)),
        "conv2d": lambda: torch.nn.functional.conv2d(image, kernel),
        "sum": lambda: a.sum(),
        "sum_axis": lambda: a.sum(0),
        "mean": lambda: numbers(16).mean(),
        "cumsum": lambda: v.cumsum(0),
        "einsum": lambda: torch.einsum("ij,jk->ik", a, b),
        "max_pool": lambda: torch.nn.functional.max_pool2d(image, 2),
        "outer": lambda: v[:8].unsqueeze(1) * v[:8].unsqueeze(0),
    }


def exact():
    """Products, sums and a convolution over small integers; a difference is a broken kernel, never the hardware."""
    return list(_products(_integers).items())


def full():
    """The same over full mantissas, and sums long enough for threads to share."""
    cells = _products(_full)
    cells["sum_big"] = lambda: _full(100000).sum()
    cells["matmul_big"] = lambda: _full(128, 256) @ _full(256, 64)
    return list(cells.items())


def cpu():
    """Operators of torch, one by one."""
    import torch

    x = _full(64)
    named = "exp log1p sin cos tan tanh sigmoid sqrt rsqrt erf erfinv expm1 atan abs round floor sign".split()
    positive = ("log1p", "sqrt", "rsqrt")
    cells = [(n, lambda n=n: getattr(torch, n)(x.abs() if n in positive else x)) for n in named]
    return cells + list(_layers().items()) + list(_reductions().items())


def _layers():
    import torch
    from torch.nn import functional

    x, square, image = _full(64), _full(8, 8), _full(1, 2, 8, 8)
    positive = x.abs() + 0.1
    return {
        "log": lambda: torch.log(positive),
        "pow": lambda: positive**2.3,
        "floor_divide": lambda: torch.tensor([-7, 7]) // torch.tensor([2, 2]),
        "floor_divide_float": lambda: torch.tensor([-7.0, 7.0]) // 2,
        "remainder": lambda: torch.tensor([-7, 7]) % 3,
        "true_divide": lambda: torch.tensor([1, 2]) / 2,
        "softmax": lambda: torch.softmax(square, 1),
        "log_softmax": lambda: torch.log_softmax(square, 1),
        "gelu": lambda: functional.gelu(x),
        "silu": lambda: functional.silu(x),
        "softplus": lambda: functional.softplus(x),
        "relu": lambda: torch.relu(x),
        "layernorm": lambda: functional.layer_norm(square, (8,)),
        "batchnorm": lambda: functional.batch_norm(image, None, None, training=True),
        "groupnorm": lambda: functional.group_norm(image, 2),
        "interpolate": lambda: functional.interpolate(image, size=(5, 5), mode="bilinear", align_corners=False),
        "interpolate_bicubic": lambda: functional.interpolate(image, (5, 5), mode="bicubic", align_corners=False),
        "interpolate_nearest": lambda: functional.interpolate(image, size=(5, 5)),
        "grid_sample": lambda: functional.grid_sample(image, _full(1, 4, 4, 2), align_corners=False),
        "avg_pool": lambda: functional.avg_pool2d(image, 3),
        "adaptive_pool": lambda: functional.adaptive_avg_pool2d(image, 3),
        "conv_padded": lambda: functional.conv2d(image, _full(3, 2, 3, 3), padding=1),
        "conv_transpose": lambda: functional.conv_transpose2d(image, _full(2, 3, 3, 3)),
    }


def _reductions():
    import torch
    from torch.nn import functional

    x, square, image = _full(64), _full(8, 8), _full(1, 2, 8, 8)
    positive = x.abs() + 0.1
    return {
        "std": lambda: x.std(),
        "var": lambda: x.var(),
        "mean": lambda: x.mean(),
        "norm": lambda: x.norm(),
        "prod": lambda: positive[:16].prod(),
        "cumsum": lambda: x.cumsum(0),
        "cumprod": lambda: positive.cumprod(0),
        "logsumexp": lambda: torch.logsumexp(square, 1),
        "linspace": lambda: torch.linspace(0, 1, 97),
        "arange": lambda: torch.arange(0, 1, 0.1),
        "sort": lambda: torch.sort((x * 7) % 1, stable=True)[0],
        "topk": lambda: torch.topk((x * 7) % 1, 4)[0],
        "median": lambda: x.median(),
        "quantile": lambda: torch.quantile(x, 0.3),
        "histc": lambda: torch.histc(x, 10, -1, 1),
        "unique": lambda: torch.unique(torch.tensor([3, 1, 3, 2]), return_counts=True),
        "svd": lambda: torch.linalg.svd(square + torch.eye(8))[1],
        "inv": lambda: torch.linalg.inv(square + 3 * torch.eye(8)),
        "det": lambda: torch.linalg.det(square + 3 * torch.eye(8)),
        "fft": lambda: torch.view_as_real(torch.fft.fft(x)),
        "cdist": lambda: torch.cdist(square, square + 1),
        "cross_entropy": lambda: functional.cross_entropy(square, torch.arange(8)),
        "bf16_matmul": lambda: square.bfloat16() @ square.bfloat16(),
        "f16_cast": lambda: x.half(),
        "bf16_cast": lambda: x.bfloat16(),
        "to_uint8": lambda: (x.abs() * 255).to(torch.uint8),
        "scatter_add": lambda: torch.zeros(4).scatter_add(0, torch.tensor([0, 1, 0, 3]), torch.ones(4)),
        "attention": lambda: functional.scaled_dot_product_attention(image, image, image),
    }


def train_step():
    """Five steps of a small net from exact inputs, with SGD, Adam and AdamW: the losses."""
    import torch
    from torch import nn

    def losses(make):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 8), nn.Tanh(), nn.Linear(8, 2))
        optimizer = make(net.parameters())
        told = []
        for _ in range(5):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(_integers(4, 1, 8, 8) / 4), torch.tensor([0, 1, 0, 1]))
            loss.backward()
            optimizer.step()
            told.append(loss.item())
        return told

    def weights():
        torch.manual_seed(0)
        return nn.Conv2d(1, 4, 3).weight.detach()

    def grad_after_zero():
        net = nn.Linear(1, 1)
        net(torch.ones(1)).backward()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        optimizer.zero_grad()
        return net.weight.grad is None

    optim = torch.optim
    return [
        ("sgd", lambda: losses(lambda p: optim.SGD(p, lr=0.1, momentum=0.9))),
        ("adam", lambda: losses(lambda p: optim.Adam(p, lr=0.01))),
        ("adamw", lambda: losses(lambda p: optim.AdamW(p, lr=0.01))),
        ("initial_weights", weights),
        ("zero_grad", grad_after_zero),
    ]


PROBES = [
    Probe("num.exact", exact),
    Probe("num.full", full),
    Probe("num.cpu", cpu),
    Probe("num.train_step", train_step),
]
