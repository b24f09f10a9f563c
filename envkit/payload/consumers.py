"""What takes the batches: a pause of a given length, a bundled model, or the user's own, called with each batch."""

import time

from structure import every_tensor
from subject import imported


def make(question):
    """A function of a batch; None where nothing is to be done with it.

    `model` is the user's factory: it returns a torch.nn.Module, which is trained on the first tensor of each batch,
    or any function of a batch.
    """
    if question.get("model"):
        return _of(imported(question["model"])())
    if question.get("bundled"):
        return _of(_BUNDLED[question["bundled"]]())
    step = question.get("step_s") or 0.0
    return (lambda batch: time.sleep(step)) if step else None


def _of(made):
    import torch

    return trained(made) if isinstance(made, torch.nn.Module) else made


def trained(model):
    """A step of training: forward, backward, SGD, on the GPU where there is one."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = model.to(device).train()
    known = list(model.parameters())
    optimiser = torch.optim.SGD(known, lr=1e-3) if known else None

    def step(batch):
        data = next(every_tensor(batch)).to(device, non_blocking=True)
        told = model(data if data.is_floating_point() else data.float())
        loss = next(every_tensor(told)).float().mean()
        if optimiser is not None:
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        return loss.item()

    return step


def _cnn():
    """A small convolutional network for images of any size."""
    from torch import nn

    layers = [nn.Conv2d(3, 16, 3, stride=2), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2), nn.ReLU()]
    return _Images(nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10)))


def _vit():
    """One block of a vision transformer over 16x16 patches."""
    from torch import nn

    block = nn.TransformerEncoderLayer(128, 4, 256, batch_first=True)
    return _Images(nn.Sequential(nn.Conv2d(3, 128, 16, stride=16), nn.Flatten(2), _Swapped(), block))


def _Images(body):
    """Whatever a batch holds as an image of three channels: (B, 3, H, W) as it is, anything else as 3x64x64."""
    import torch

    class Images(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body = body

        def forward(self, data):
            if data.dim() != 4 or data.shape[1] != 3 or min(data.shape[2:]) < 16:
                flat = data.reshape(data.shape[0] if data.dim() else 1, -1)
                wanted = 3 * 64 * 64
                flat = flat.repeat(1, -(-wanted // max(1, flat.shape[1])))[:, :wanted]
                data = flat.reshape(-1, 3, 64, 64)
            return self.body(data)

    return Images()


def _Swapped():
    import torch

    class Swapped(torch.nn.Module):
        def forward(self, data):
            return data.transpose(1, 2)

    return Swapped()


_BUNDLED = {"cnn": _cnn, "vit": _vit}
