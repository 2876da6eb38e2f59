/* Packing a matrix turned round: the rows of the file become the columns of the panels. */
#ifndef HL_QUANT_TRANSPOSE_H
#define HL_QUANT_TRANSPOSE_H

#include "quant/types.h"

/* The panel that transposed weights of this type fit into: blocks run along rows, so quantized weights
 * become f16. */
enum panel_type transpose_panel(const struct type_info *type);

/* Packs n_rows rows of n_columns weights of the file, row_bytes apart, as a matrix of n_columns rows and
 * n_rows columns of transpose_panel(type) into dst (zeroed). False when a weight is infinite or NaN. */
bool transpose_pack(void *dst, const struct type_info *type, const void *src, size_t row_bytes, int n_rows,
                    int n_columns);

#endif
