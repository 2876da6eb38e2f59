#!/usr/bin/env python3
"""Writes a GGUF file again with its quantized matrices in another type: requantize.py SOURCE Q4_0|Q8_0 TARGET

Metadata and float tensors stay as they are. For measuring speed: quantizing twice costs accuracy.
"""
import os
import sys

import gguf
import numpy as np

FLOATS = {gguf.GGMLQuantizationType.F32, gguf.GGMLQuantizationType.F16, gguf.GGMLQuantizationType.BF16}
# What the writer makes by itself.
OWN = {"GGUF.version", "GGUF.tensor_count", "GGUF.kv_count", "general.architecture"}


def copy_metadata(reader, writer, replace, only=""):
    """Adds every entry of reader whose key begins with only to writer; replace: {key: value} for entries that change."""
    for field in reader.fields.values():
        if field.name in OWN or not field.name.startswith(only):
            continue
        kind = field.types[0]
        inner = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        value = replace.get(field.name, field.contents())
        writer.add_key_value(field.name, value, kind, sub_type=inner)


def new_writer(reader, path):
    return gguf.GGUFWriter(path, reader.get_field("general.architecture").contents())


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main(source, type_name, target):
    kind = gguf.GGMLQuantizationType[type_name]
    reader = gguf.GGUFReader(source)
    part = target + ".tmp"
    writer = new_writer(reader, part)
    file_type = gguf.LlamaFileType["MOSTLY_" + type_name]
    copy_metadata(reader, writer, {"general.file_type": int(file_type)})
    for tensor in reader.tensors:
        if tensor.tensor_type in FLOATS:
            writer.add_tensor(tensor.name, tensor.data)
            continue
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        writer.add_tensor(tensor.name, gguf.quants.quantize(values, kind), raw_dtype=kind)
    finish(writer)
    os.replace(part, target)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
