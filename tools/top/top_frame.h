/* Draws a frame of the live view from a model. Pure but for the canvas's memory. */
#ifndef HOLDFAST_TOOLS_TOP_TOP_FRAME_H
#define HOLDFAST_TOOLS_TOP_TOP_FRAME_H

#include "tools/top/top_canvas.h"
#include "tools/top/top_model.h"

/* No line is wider than `style->width`, and there are no more than `style->height` of them. Whatever the names are, nothing
 * but printable ASCII, block characters of bars and, with colours, their sequences comes out. */
void top_frame_draw(struct top_canvas *canvas, const struct top_style *style,
                    const struct top_model *model);

#endif
