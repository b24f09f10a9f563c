"""Pillow: decoding, resizing, and its names. Section 1.7 of the probe list."""

import io
import os

from probe import Probe

FIXTURES = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "fixtures")
NAMES = (
    "noise420.jpg",
    "smooth420.jpg",
    "gray.jpg",
    "cmyk.jpg",
    "progressive.jpg",
    "rotated.jpg",
    "rgba.png",
    "palette.png",
    "i16.png",
    "lossy.webp",
)


def fixture(name):
    """The path of one of the ten images."""
    return os.path.join(FIXTURES, name)


def opened(name):
    """A fixture, decoded."""
    from PIL import Image

    with Image.open(fixture(name)) as image:
        image.load()
        return image


def picture(mode="RGB", size=(16, 12)):
    """An image of exact pixels: no decoder is needed."""
    from PIL import Image

    bands = {"RGB": 3, "L": 1, "RGBA": 4}[mode]
    data = bytes((index * 7 + index // 13 * 31) % 256 for index in range(size[0] * size[1] * bands))
    return Image.frombytes(mode, size, data)


def _encoded(image, kind, **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def _decoded(data):
    from PIL import Image

    with Image.open(io.BytesIO(data)) as image:
        image.load()
        return image


def jpeg():
    """Decoding the fixtures, also scaled and converted, and encoding: the JPEG library decides."""
    cells = [("dec_" + name, lambda name=name: opened(name)) for name in NAMES]
    cells += [("rgb_" + name, lambda name=name: opened(name).convert("RGB")) for name in NAMES if name.endswith("jpg")]
    cells += [
        ("draft", lambda: _draft("noise420.jpg", "RGB", (10, 7))),
        ("draft_gray", lambda: _draft("noise420.jpg", "L", (20, 14))),
        ("transposed", lambda: _transposed("rotated.jpg")),
        ("enc_75", lambda: _decoded(_encoded(picture(), "JPEG", quality=75))),
        ("enc_95", lambda: _decoded(_encoded(picture(), "JPEG", quality=95, subsampling=0))),
        ("enc_gray", lambda: _decoded(_encoded(picture("L"), "JPEG"))),
        ("enc_png", lambda: _decoded(_encoded(picture(), "PNG"))),
        ("enc_rgba", lambda: _encoded(picture("RGBA"), "JPEG")),
        ("quantization", lambda: sorted(len(table) for table in opened("noise420.jpg").quantization.values())),
    ]
    return cells


def _draft(name, mode, size):
    from PIL import Image

    with Image.open(fixture(name)) as image:
        image.draft(mode, size)
        image.load()
        return image


def _transposed(name):
    from PIL import ImageOps

    return ImageOps.exif_transpose(opened(name))


def resize():
    """Filters, conversions and geometry over exact pixels."""
    from PIL import Image

    image = picture(size=(32, 24))
    filters = "NEAREST BOX BILINEAR HAMMING BICUBIC LANCZOS".split()
    cells = {name.lower(): lambda name=name: image.resize((13, 9), getattr(Image, name)) for name in filters}
    cells.update(
        {name.lower() + "_up": lambda name=name: image.resize((45, 50), getattr(Image, name)) for name in filters}
    )
    return list(cells.items()) + list(_operations(image).items())


def _operations(image):
    """Conversions, geometry and filters."""
    from PIL import Image, ImageEnhance, ImageFilter, ImageOps

    return {
        "default": lambda: image.resize((13, 9)),
        "reducing_gap": lambda: image.resize((5, 5), Image.BILINEAR, reducing_gap=2.0),
        "box": lambda: image.resize((7, 7), Image.BILINEAR, box=(1, 1, 20, 20)),
        "thumbnail": lambda: _thumbnail(image.copy()),
        "reduce": lambda: image.reduce(3),
        "gray": lambda: image.convert("L"),
        "ycbcr": lambda: image.convert("YCbCr"),
        "hsv": lambda: image.convert("HSV"),
        "cmyk": lambda: image.convert("CMYK"),
        "lab": lambda: image.convert("F"),
        "one_bit": lambda: image.convert("1"),
        "palette": lambda: image.convert("P"),
        "palette_resized": lambda: opened("palette.png").resize((9, 9)),
        "i16_resized": lambda: opened("i16.png").resize((9, 9)),
        "quantize": lambda: image.quantize(8),
        "rotate": lambda: image.rotate(30, Image.BILINEAR),
        "rotate_expand": lambda: image.rotate(45, expand=True),
        "affine": lambda: image.transform((20, 20), Image.AFFINE, (1, 0.1, 2, 0, 1, 1), Image.BILINEAR),
        "perspective": lambda: image.transform(
            (20, 20), Image.PERSPECTIVE, (1, 0.1, 2, 0, 1, 1, 0.001, 0), Image.BICUBIC
        ),
        "flip": lambda: image.transpose(Image.FLIP_LEFT_RIGHT),
        "blur": lambda: image.filter(ImageFilter.GaussianBlur(1.5)),
        "sharpen": lambda: image.filter(ImageFilter.SHARPEN),
        "brightness": lambda: ImageEnhance.Brightness(image).enhance(1.3),
        "contrast": lambda: ImageEnhance.Contrast(image).enhance(0.7),
        "color": lambda: ImageEnhance.Color(image).enhance(1.5),
        "autocontrast": lambda: ImageOps.autocontrast(image),
        "equalize": lambda: ImageOps.equalize(image),
        "posterize": lambda: ImageOps.posterize(image, 3),
        "fit": lambda: ImageOps.fit(image, (10, 10)),
    }


def _thumbnail(image):
    image.thumbnail((10, 10))
    return image


def api():
    """Names that came and went, and what bad input raises."""
    from PIL import Image, ImageDraw, ImageFont

    constants = "ANTIALIAS LINEAR CUBIC BILINEAR Resampling Transpose Dither isImageType core".split()
    cells = {name: lambda name=name: getattr(Image, name) and True for name in constants}
    cells.update(
        {
            "textsize": lambda: ImageDraw.Draw(picture()).textsize("a") and True,
            "textbbox": lambda: ImageDraw.Draw(picture()).textbbox((0, 0), "a") and True,
            "getsize": lambda: ImageFont.load_default().getsize("a") and True,
            "getdata": lambda: list(picture().getdata())[:2],
            "fromarray_rgb": lambda: Image.fromarray(_array("uint8", 3)),
            "fromarray_float": lambda: Image.fromarray(_array("float64", None)),
            "fromarray_float3": lambda: Image.fromarray(_array("float32", 3)),
            "fromarray_bool": lambda: Image.fromarray(_array("bool", None)),
            "fromarray_mode": lambda: Image.fromarray(_array("uint8", 3), mode="RGB"),
            "fromarray_int64": lambda: Image.fromarray(_array("int64", None)),
            "asarray_writable": lambda: bool(_asarray(picture()).flags.writeable),
            "asarray_one_bit": lambda: _asarray(picture().convert("1")),
            "unidentified": lambda: Image.open(io.BytesIO(b"<html>404</html>")),
            "empty_file": lambda: Image.open(io.BytesIO(b"")),
            "missing_file": lambda: Image.open("no-such-file.jpg"),
            "truncated_jpeg": lambda: _decoded(_bytes("noise420.jpg")[:-200]),
            "truncated_png": lambda: _decoded(_bytes("rgba.png")[:-200]),
            "bomb": lambda: _bomb(Image),
            "convert_bad": lambda: picture().convert("no such mode"),
            "resize_bad": lambda: picture().resize((0, 3)),
            "crop_outside": lambda: picture().crop((-1, -1, 3, 3)),
            "closed": lambda: _closed(Image),
            "equal": lambda: picture() == picture(),
            "exif": lambda: opened("rotated.jpg").getexif().get(0x0112),
        }
    )
    return list(cells.items())


def _bytes(name):
    with open(fixture(name), "rb") as file:
        return file.read()


def _array(dtype, bands):
    import numpy as np

    shape = (4, 5, bands) if bands else (4, 5)
    return np.arange(20 * (bands or 1)).reshape(shape).astype(dtype)


def _asarray(image):
    import numpy as np

    return np.asarray(image)


def _bomb(image_module):
    previous, image_module.MAX_IMAGE_PIXELS = image_module.MAX_IMAGE_PIXELS, 100
    try:
        return opened("rgba.png").size
    finally:
        image_module.MAX_IMAGE_PIXELS = previous


def _closed(image_module):
    image = image_module.open(fixture("rgba.png"))
    image.close()
    return image.load() and None


PROBES = [
    Probe("pil.jpeg", jpeg),
    Probe("pil.resize", resize),
    Probe("pil.api", api),
]
