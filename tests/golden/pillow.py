#!/usr/bin/env python3
"""What Pillow makes of small images: cases/pillow_*.json, for the tests of src/data.

    ./pillow.py            says which file would change (then exit code 1)
    ./pillow.py --write    replaces the files that differ

Needs Pillow alone (the stored values are of 9.4). The image of a case is a formula of its size, a
number and the range of its pixels, so that only results are stored: rows of red, green and blue in
hexadecimal.
"""
import json
import pathlib
import sys

from PIL import Image, ImageEnhance, ImageFilter, ImageOps

CASES = pathlib.Path(__file__).resolve().parent / "cases"
FILTERS = {"bilinear": Image.BILINEAR, "bicubic": Image.BICUBIC}
FILL = (124, 7, 250)


def source(width, height, seed, low, high):
    """Pixel (x, y, c) = low + (3 x^2 + 5 y^2 + 7 x y + 29 c + 13 seed) mod (high - low + 1)."""
    image = Image.new("RGB", (width, height))
    for y in range(height):
        for x in range(width):
            image.putpixel((x, y), tuple(
                low + (3 * x * x + 5 * y * y + 7 * x * y + 29 * c + 13 * seed) % (high - low + 1)
                for c in range(3)))
    return image


def solarize_add(image, add):
    return image.point([min(255, i + add) if i < 128 else i for i in range(256)] * 3)


OPS = {
    "auto_contrast": lambda i, v: ImageOps.autocontrast(i),
    "equalize": lambda i, v: ImageOps.equalize(i),
    "invert": lambda i, v: ImageOps.invert(i),
    "posterize": lambda i, v: ImageOps.posterize(i, v),
    "solarize": lambda i, v: ImageOps.solarize(i, v),
    "solarize_add": solarize_add,
    "color": lambda i, v: ImageEnhance.Color(i).enhance(v),
    "contrast": lambda i, v: ImageEnhance.Contrast(i).enhance(v),
    "brightness": lambda i, v: ImageEnhance.Brightness(i).enhance(v),
    "sharpness": lambda i, v: ImageEnhance.Sharpness(i).enhance(v),
    "blur": lambda i, v: i.filter(ImageFilter.GaussianBlur(radius=v)),
}


def stored(case, result):
    return {**case, "to": list(result.size), "pixels": result.tobytes().hex()}


def of(size, seed=1, low=0, high=255):
    return {"from": list(size), "seed": seed, "low": low, "high": high}


def image_of(case):
    return source(*case["from"], case["seed"], case["low"], case["high"])


def resize_case(image, filter, to, box=None, crop=None):
    case = {"op": "crop" if crop else "resize", "filter": filter, **image}
    whole = image_of(case)
    if crop:
        left, top, width, height = case["box"] = crop
        part = whole.crop((left, top, left + width, top + height))
        return stored(case, part.resize(to, FILTERS[filter]))
    case["box"] = box or [0, 0, *image["from"]]
    return stored(case, whole.resize(to, FILTERS[filter], box=tuple(case["box"])))


def resize_cases():
    for filter in FILTERS:
        yield resize_case(of((11, 9)), filter, (5, 4))
        yield resize_case(of((11, 9), 2), filter, (16, 7))
        yield resize_case(of((11, 9), 3), filter, (11, 5))
        yield resize_case(of((11, 9), 3), filter, (4, 9))
        yield resize_case(of((40, 3), 4), filter, (3, 6))
        yield resize_case(of((1, 50), 5), filter, (4, 4))
        yield resize_case(of((11, 9), 6), filter, (6, 6), box=[2.25, 1.5, 9.75, 8.125])
        yield resize_case(of((11, 9), 6), filter, (6, 6), box=[3, 1, 9, 7])
        yield resize_case(of((11, 9), 7), filter, (6, 6), crop=[3, 1, 7, 8])
        yield resize_case(of((11, 9), 7), filter, (9, 5), crop=[2, 3, 4, 5])
        yield resize_case(of((11, 9), 7), filter, (4, 5), crop=[2, 3, 4, 5])


def op_case(op, value=None, **image):
    case = {"op": op, "value": value, **of((11, 9), **image)}
    return stored(case, OPS[op](image_of(case), value))


def colour_cases():
    yield op_case("auto_contrast")
    yield op_case("auto_contrast", low=40, high=160)
    yield op_case("auto_contrast", low=99, high=99)
    yield op_case("equalize")
    yield op_case("equalize", low=40, high=43)
    yield op_case("equalize", low=99, high=99)
    large = {"op": "equalize", "value": None, **of((40, 26), 2, 0, 60)}
    whole = ImageOps.equalize(image_of(large))
    large["rows"] = 4  # of the result that are stored
    yield stored(large, whole.crop((0, 0, 40, 4)))
    yield op_case("invert")
    for bits in 0, 1, 3, 4:
        yield op_case("posterize", bits)
    for threshold in 0, 100, 256:
        yield op_case("solarize", threshold)
    for add in 0, 37, 110:
        yield op_case("solarize_add", add)
    for op in "color", "contrast", "brightness", "sharpness":
        for factor in 0.1, 0.73, 1.9:
            yield op_case(op, factor, seed=3, low=3, high=240)
    yield op_case("color", 0.0, seed=2)


def blur_cases():
    for radius in 0.1, 0.5, 0.9, 1.4, 2.0:
        yield op_case("blur", radius, seed=5)
    case = {"op": "blur", "value": 1.9, **of((3, 2), 1)}
    yield stored(case, OPS["blur"](image_of(case), 1.9))


def affine_case(filter, image, matrix):
    case = {"op": "affine", "filter": filter, "matrix": matrix, "fill": FILL, **image}
    whole = image_of(case)
    return stored(case, whole.transform(whole.size, Image.AFFINE, matrix, FILTERS[filter],
                                        fillcolor=FILL))


def affine_cases():
    for filter in FILTERS:
        size = of((12, 9), 4)
        for factor in 0.3, -0.137:
            yield affine_case(filter, size, [1, factor, 0, 0, 1, 0])
            yield affine_case(filter, size, [1, 0, 0, factor, 1, 0])
        for pixels in 3.7, -2.25:
            yield affine_case(filter, size, [1, 0, pixels, 0, 1, 0])
            yield affine_case(filter, size, [1, 0, 0, 0, 1, pixels])
        for degrees in 0, 0.001, 17.3, -30:
            case = {"op": "rotate", "filter": filter, "value": degrees, "fill": FILL, **size}
            yield stored(case, image_of(case).rotate(degrees, FILTERS[filter], fillcolor=FILL))


FILES = {"resize": resize_cases, "colour": colour_cases, "blur": blur_cases,
         "affine": affine_cases}


def main():
    write = sys.argv[1:] == ["--write"]
    changed = 0
    for name, cases in FILES.items():
        path = CASES / f"pillow_{name}.json"
        text = '{"kind": "pillow", "cases": [\n' + ",\n".join(json.dumps(c) for c in cases()) + "\n]}\n"
        assert len(text) <= 32768, name
        if path.exists() and path.read_text() == text:
            continue
        changed += 1
        print(path.name, "written" if write else "would change")
        if write:
            path.write_text(text)
    return 1 if changed and not write else 0


if __name__ == "__main__":
    sys.exit(main())
