"""A model made from another one: quantized, calibrated, sliced, or synthetic for measurements.

Variants. `quantizing.py` streams a model's tensors through `core/quant/quantizer.py` into
`core/formats/variant_writer.py`, a few MiB at a time, and releases the source's pages behind it, so
that neither the model nor a tensor bounds the memory. int4 and int8 blocks are searched
(`core/quant/search.py` defines the search, C++ gives the same bytes). With calibration,
`calibration.py` sums the second moments of every matrix' inputs in nameless files on the disk, and
the quantizer rounds column by column with their help. `core/formats/variant_reader.py` describes
the result: tensors begin at multiples of 64 bytes, in the formats that kernels read, so that the
C++ executor computes with the mapped file itself.

Slices. `core/models/gemma3n/cut.py` says what of each tensor stays: whole layers, prefixes of rows
and columns, parts of a table's rows. All are runs of whole blocks, so that quantized matrices are
cut without touching a value, or the cut is refused. A view (`slice.json`) applies the same cut to
the source's mapped tensors whenever it is opened: only prefixes of columns are copied, and the plan
picks the layers of each table row.
"""
