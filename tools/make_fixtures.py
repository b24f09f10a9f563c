"""Write the ten tiny images that the probes decode: `python tools/make_fixtures.py FOLDER`, with Pillow.

They are shipped as made once: decoders are compared, so the files must not follow the encoder of the day.
"""

import io
import random
import sys
from pathlib import Path

from PIL import Image

SIZE = (20, 14)


def noise(mode: str, seed: int) -> Image.Image:
    """Random pixels: the most that chroma subsampling and the DCT can disagree about."""
    source = random.Random(seed)
    count = SIZE[0] * SIZE[1] * len(Image.new(mode, (1, 1)).getbands())
    return Image.frombytes(mode, SIZE, bytes(source.getrandbits(8) for _ in range(count)))


def smooth(mode: str) -> Image.Image:
    """A gradient in each band."""
    bands = [
        Image.frombytes(
            "L", SIZE, bytes((x * (band + 3) + y * 5) % 256 for y in range(SIZE[1]) for x in range(SIZE[0]))
        )
        for band in range(len(Image.new(mode, (1, 1)).getbands()))
    ]
    return Image.merge(mode, bands) if len(bands) > 1 else bands[0]


def deep() -> Image.Image:
    """Sixteen bits per pixel, with values above 255 and above 32767."""
    values = [(x * 3001 + y * 257) % 65536 for y in range(SIZE[1]) for x in range(SIZE[0])]
    return Image.frombytes("I;16", SIZE, b"".join(value.to_bytes(2, "little") for value in values))


def rotated() -> bytes:
    """Exif orientation 6: a viewer turns it, `Image.open` does not."""
    exif = Image.Exif()
    exif[0x0112] = 6
    return encoded(smooth("RGB"), "JPEG", quality=90, exif=exif.tobytes())


def encoded(image: Image.Image, kind: str, **options: object) -> bytes:
    """The image as a file's bytes."""
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def fixtures() -> dict[str, bytes]:
    """Each file's name and bytes."""
    return {
        "noise420.jpg": encoded(noise("RGB", 1), "JPEG", quality=75, subsampling=2),
        "smooth420.jpg": encoded(smooth("RGB"), "JPEG", quality=75, subsampling=2),
        "gray.jpg": encoded(noise("L", 2), "JPEG", quality=85),
        "cmyk.jpg": encoded(noise("CMYK", 3), "JPEG", quality=85, subsampling=0),
        "progressive.jpg": encoded(noise("RGB", 4), "JPEG", quality=80, progressive=True),
        "rotated.jpg": rotated(),
        "rgba.png": encoded(noise("RGBA", 5), "PNG"),
        "palette.png": encoded(smooth("RGB").quantize(16), "PNG", bits=8),
        "i16.png": encoded(deep(), "PNG"),
        "lossy.webp": encoded(smooth("RGB"), "WEBP", quality=70),
    }


def main(folder: Path) -> None:
    """Write them."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in fixtures().items():
        (folder / name).write_bytes(data)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
