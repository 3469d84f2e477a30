/* Lines of text of a bounded width, with tones where the terminal has colours. Pure but for memory. */
#ifndef HOLDFAST_TOOLS_TOP_TOP_CANVAS_H
#define HOLDFAST_TOOLS_TOP_TOP_CANVAS_H

#include <stdbool.h>
#include <stddef.h>

struct top_style {
    int width, height; /* columns, at least 1; lines, 0: any number */
    bool colour;
    bool unicode; /* bars of block characters; else of '#' */
};

enum top_tone { TONE_PLAIN, TONE_BOLD, TONE_DIM, TONE_GOOD, TONE_WARN, TONE_BAD };

/* Zeroed it is empty; freed with top_canvas_free(). */
struct top_canvas {
    const struct top_style *style;
    char *text; /* lines that end with '\n'; no final NUL */
    size_t length, room;
    int column, lines;
};

/* Empties it. */
void top_canvas_begin(struct top_canvas *canvas, const struct top_style *style);
void top_canvas_free(struct top_canvas *canvas);

/* Appends to the line what it has room for. Bytes that are not printable ASCII become '?'. */
void top_canvas_put(struct top_canvas *canvas, enum top_tone tone, const char *text);
/* In `width` columns: padded, cut with "..."; to the right. */
void top_canvas_cell(struct top_canvas *canvas, enum top_tone tone, const char *text, int width,
                     bool right);
/* `part` of `width` columns is filled; 0 to 1. */
void top_canvas_bar(struct top_canvas *canvas, enum top_tone tone, double part, int width);
/* Blanks up to that column. */
void top_canvas_pad(struct top_canvas *canvas, int column);
void top_canvas_end_line(struct top_canvas *canvas);

#endif
