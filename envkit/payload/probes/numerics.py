"""Arithmetic that must be exact everywhere: small integers, every partial sum below 2**24. Section 1.6."""


def exact():
    """Products, sums and a convolution over small integers; a difference is a broken kernel, never the hardware."""
    import torch

    def numbers(*shape):
        count = 1
        for size in shape:
            count *= size
        return (torch.arange(count) % 7 - 3).to(torch.float32).reshape(shape)

    a, b, v = numbers(16, 24), numbers(24, 8), numbers(24)
    image, kernel = numbers(1, 3, 8, 8), numbers(4, 3, 3, 3)
    cells = {
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
    return list(cells.items())


PROBES = [("num.exact", exact)]
