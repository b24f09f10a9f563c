"""torchvision: whether it imports beside this torch, its transforms, and how it reads images. Section 1.7."""

import os
import shutil
import tempfile

from probe import Probe
from values import describe

from probes.pillow import NAMES, fixture, opened, picture


def import_torchvision():
    """Import torchvision and call one of its compiled operators."""

    def imported():
        import torchvision

        return torchvision.__name__

    def nms():
        import torch
        from torchvision import ops

        boxes = torch.tensor([[0.0, 0, 1, 1], [0, 0, 1, 1], [2, 2, 3, 3]])
        return ops.nms(boxes, torch.tensor([0.9, 0.8, 0.7]), 0.5)

    return [("import", imported), ("nms", nms)]


def _pixels(dtype="uint8"):
    """Exact pixels as a tensor of 3x24x32."""
    import torch

    data = torch.arange(3 * 24 * 32) % 251
    tensor = data.reshape(3, 24, 32).to(torch.uint8)
    return tensor if dtype == "uint8" else tensor.to(torch.float32) / 255


def resize():
    """Resize of an image, of bytes and of floats, with antialias left alone, on and off."""
    from torchvision import transforms as t

    inputs = {"pil": lambda: picture(size=(32, 24)), "uint8": _pixels, "float": lambda: _pixels("float")}
    options = {"default": {}, "antialias": {"antialias": True}, "plain": {"antialias": False}}
    cells = [
        ("%s_%s" % (kind, name), lambda make=make, more=more: t.Resize((10, 13), **more)(make()))
        for kind, make in inputs.items()
        for name, more in options.items()
    ]
    modes = ("NEAREST", "BICUBIC")
    cells += [
        ("%s_%s" % (kind, mode.lower()), lambda make=make, mode=mode: t.Resize((10, 13), _mode(mode))(make()))
        for kind, make in inputs.items()
        for mode in modes
    ]
    cells.append(("pil_size_int", lambda: t.Resize(10)(picture(size=(32, 24)))))
    cells.append(("pil_interpolation_int", lambda: t.Resize((10, 13), 2)(picture(size=(32, 24)))))
    cells.append(("signature", lambda: _default_of(t.Resize.__init__, "antialias")))
    return cells


def _mode(name):
    from torchvision.transforms import InterpolationMode

    return getattr(InterpolationMode, name)


def _default_of(function, name):
    import inspect

    parameters = inspect.signature(function).parameters
    return repr(parameters[name].default) if name in parameters else "no such argument"


def _seeded(work):
    def run():
        import random

        import torch

        torch.manual_seed(0)
        random.seed(0)
        return work()

    return run


def transforms():
    """Conversions and augmentations, each for a seed."""
    augmented = [(name, _seeded(work)) for name, work in _augmentations().items()]
    return list(_conversions().items()) + augmented


def _conversions():
    import torch
    from torchvision import transforms as t
    from torchvision.transforms import functional as f

    image = picture(size=(32, 24))
    return {
        "to_tensor": lambda: t.ToTensor()(image),
        "to_tensor_gray": lambda: t.ToTensor()(image.convert("L")),
        "to_tensor_palette": lambda: t.ToTensor()(image.convert("P")),
        "to_tensor_i16": lambda: t.ToTensor()(opened("i16.png")),
        "pil_to_tensor": lambda: t.PILToTensor()(image),
        "to_pil": lambda: t.ToPILImage()(_pixels()),
        "convert_dtype": lambda: t.ConvertImageDtype(torch.float32)(_pixels()),
        "normalize": lambda: t.Normalize((0.5,) * 3, (0.5,) * 3)(_pixels("float")),
        "normalize_uint8": lambda: t.Normalize((0.5,) * 3, (0.5,) * 3)(_pixels()),
        "normalize_zero_std": lambda: t.Normalize((0.5,) * 3, (0.0,) * 3)(_pixels("float")),
        "center_crop": lambda: t.CenterCrop(10)(image),
        "center_crop_larger": lambda: t.CenterCrop(40)(image),
        "pad": lambda: t.Pad(2)(image),
        "grayscale": lambda: t.Grayscale(3)(image),
        "hue_uint8": lambda: f.adjust_hue(_pixels(), 0.1),
        "hue_pil": lambda: f.adjust_hue(image, 0.1),
        "saturation": lambda: f.adjust_saturation(_pixels(), 1.5),
        "gamma": lambda: f.adjust_gamma(_pixels(), 1.5),
        "rotate_uint8": lambda: f.rotate(_pixels(), 30),
        "rotate_pil": lambda: f.rotate(image, 30),
        "affine_uint8": lambda: f.affine(_pixels(), 10, [1, 2], 1.1, [5.0, 0.0]),
        "perspective_uint8": lambda: f.perspective(
            _pixels(), [[0, 0], [31, 0], [31, 23], [0, 23]], [[2, 1], [29, 0], [30, 22], [1, 23]]
        ),
        "blur": lambda: f.gaussian_blur(_pixels(), [3, 3], [1.0, 1.0]),
        "equalize": lambda: f.equalize(_pixels()),
        "posterize": lambda: f.posterize(_pixels(), 3),
        "five_crop": lambda: t.FiveCrop(10)(image)[0],
    }


def _augmentations():
    from torchvision import transforms as t

    image = picture(size=(32, 24))
    return {
        "random_crop": lambda: t.RandomCrop(10)(image),
        "random_flip": lambda: [t.RandomHorizontalFlip()(image) for _ in range(3)],
        "resized_crop": lambda: t.RandomResizedCrop(10)(image),
        "resized_crop_params": lambda: t.RandomResizedCrop.get_params(image, [0.1, 1.0], [0.75, 1.33]),
        "rotation_params": lambda: t.RandomRotation.get_params([-30.0, 30.0]),
        "affine_params": lambda: t.RandomAffine.get_params([-30, 30], [0.1, 0.1], [0.9, 1.1], [-5, 5], [32, 24]),
        "erasing": lambda: t.RandomErasing(p=1.0)(_pixels("float")),
        "jitter": lambda: t.ColorJitter(0.4, 0.4, 0.4)(image),
        "jitter_hue": lambda: t.ColorJitter(hue=0.2)(image),
        "random_choice": lambda: [t.RandomChoice([_Constant(0), _Constant(1), _Constant(2)])(0) for _ in range(6)],
        "random_apply": lambda: [t.RandomApply([_Constant(1)], p=0.5)(0) for _ in range(6)],
        "random_order": lambda: [t.RandomOrder([_Append(0), _Append(1), _Append(2)])([]) for _ in range(3)],
        "rand_augment": lambda: t.RandAugment()(image),
        "auto_augment": lambda: t.AutoAugment()(image),
        "trivial_augment": lambda: t.TrivialAugmentWide()(image),
        "aug_mix": lambda: t.AugMix()(image),
        "random_perspective": lambda: t.RandomPerspective(p=1.0)(image),
        "random_blur": lambda: t.GaussianBlur(3)(_pixels()),
    }


class _Constant:
    """A transform that gives one value."""

    def __init__(self, value):
        self.value = value

    def __call__(self, image):
        return self.value


class _Append:
    """A transform that says that it ran."""

    def __init__(self, value):
        self.value = value

    def __call__(self, image):
        return image + [self.value]


def second_version():
    """transforms.v2: its names, and Resize of bytes, which follows the processor."""
    import torch
    from torchvision.transforms import v2

    def tensors():
        from torchvision import tv_tensors

        return tv_tensors

    names = "ToImage ToImageTensor ToDtype ToTensor ConvertDtype ToPureTensor JPEG MixUp CutMix GaussianNoise".split()
    cells = [("name_" + name, lambda name=name: hasattr(v2, name)) for name in names]
    cells += [
        ("tv_tensors", lambda: sorted(name for name in ("Image", "Mask", "Video") if hasattr(tensors(), name))),
        ("resize_uint8", lambda: v2.Resize((10, 13), antialias=True)(_pixels())),
        ("resize_float", lambda: v2.Resize((10, 13), antialias=True)(_pixels("float"))),
        ("resize_pil", lambda: v2.Resize((10, 13))(picture(size=(32, 24)))),
        ("resized_crop_uint8", _seeded(lambda: v2.RandomResizedCrop(10, antialias=True)(_pixels()))),
        ("to_image", lambda: v2.ToImage()(picture())),
        ("to_dtype_scaled", lambda: v2.ToDtype(torch.float32, scale=True)(_pixels())),
        ("to_tensor", lambda: v2.ToTensor()(picture())),
        ("collate_tensor", lambda: _collated(tensors().Image(_pixels()))),
        ("flip_pair", _seeded(lambda: v2.RandomHorizontalFlip()(picture(), 3))),
        ("normalize_uint8", lambda: v2.Normalize((0.5,) * 3, (0.5,) * 3)(_pixels())),
    ]
    return cells


def _collated(sample):
    from torch.utils.data._utils.collate import default_collate

    return default_collate([sample, sample])


def reading():
    """read_image of the fixtures."""
    from torchvision import io

    cells = [("read_" + name, lambda name=name: _read(io, name)) for name in NAMES]
    cells += [
        ("gray_noise420.jpg", lambda: io.read_image(fixture("noise420.jpg"), io.ImageReadMode.GRAY)),
        ("rgb_rgba.png", lambda: io.read_image(fixture("rgba.png"), io.ImageReadMode.RGB)),
        ("rgb_cmyk.jpg", lambda: io.read_image(fixture("cmyk.jpg"), io.ImageReadMode.RGB)),
        ("same_as_pillow", _same_as_pillow),
    ]
    return cells


def _read(io, name):
    """The image; where reads differ from each other (memory that was never written), that is what is recorded."""
    reads = [io.read_image(fixture(name)) for _ in range(3)]
    contents = {str(describe(one)) for one in reads}
    return reads[0] if len(contents) == 1 else "differs from read to read"


def _same_as_pillow():
    from torchvision import io
    from torchvision.transforms import functional

    mine = io.read_image(fixture("noise420.jpg")).int()
    theirs = functional.pil_to_tensor(opened("noise420.jpg")).int()
    return int((mine - theirs).abs().max())


def bad_reading():
    """What unreadable images raise."""
    import torch
    from torchvision import io

    return [
        ("missing", lambda: io.read_image("no-such-file.jpg")),
        ("truncated", lambda: io.decode_jpeg(_head(io, "noise420.jpg", 400))),
        ("not_an_image", lambda: io.decode_image(torch.arange(30, dtype=torch.uint8))),
        ("empty", lambda: io.decode_image(torch.zeros(0, dtype=torch.uint8))),
        ("png_as_jpeg", lambda: io.decode_jpeg(io.read_file(fixture("rgba.png")))),
        ("float_input", lambda: io.decode_jpeg(torch.zeros(10))),
    ]


def _head(io, name, count):
    return io.read_file(fixture(name))[:count]


def imagefolder():
    """ImageFolder: the order of classes and files, an empty class, hidden files and upper-case names."""
    from torchvision import datasets

    def told(*classes):
        with tempfile.TemporaryDirectory() as folder:
            for name, files in classes:
                os.makedirs(os.path.join(folder, name))
                for file in files:
                    shutil.copy(fixture("gray.jpg"), os.path.join(folder, name, file))
            found = datasets.ImageFolder(folder)
            return [found.classes, [[os.path.relpath(path, folder), label] for path, label in found.samples]]

    cats, dogs = ("cat", ["b.jpg", "a.PNG", ".hidden.jpg", "notes.txt"]), ("Dog", ["1.jpg", "10.jpg", "2.jpg"])
    return [("classes", lambda: told(cats, dogs)), ("empty_class", lambda: told(cats, dogs, ("void", [])))]


PROBES = [
    Probe("env.import_torchvision", import_torchvision),
    Probe("tv.resize", resize),
    Probe("tv.transforms", transforms),
    Probe("tv.v2", second_version),
    Probe("tv.io", reading),
    Probe("tv.io_bad", bad_reading),
    Probe("tv.imagefolder", imagefolder),
]
