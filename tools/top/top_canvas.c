#include "tools/top/top_canvas.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/exit_code.h"

#define EIGHTHS 8

void top_canvas_begin(struct top_canvas *c, const struct top_style *style)
{
    c->style = style;
    c->length = 0;
    c->column = c->lines = 0;
}

void top_canvas_free(struct top_canvas *c)
{
    free(c->text);
    *c = (struct top_canvas){.text = NULL};
}

static void canvas_append(struct top_canvas *c, const char *bytes, size_t length)
{
    if (c->length + length > c->room) {
        size_t room = 2 * (c->length + length) + 4096;
        char *text = realloc(c->text, room);

        if (!text) {
            fputs("holdfast: out of memory\n", stderr);
            exit(EXIT_FAILED);
        }
        c->text = text;
        c->room = room;
    }
    memcpy(c->text + c->length, bytes, length);
    c->length += length;
}

static void canvas_append_str(struct top_canvas *c, const char *text)
{
    canvas_append(c, text, strlen(text));
}

static void canvas_begin_tone(struct top_canvas *c, enum top_tone tone)
{
    static const char *const codes[] = {
        [TONE_PLAIN] = "",        [TONE_BOLD] = "\x1b[1m",  [TONE_DIM] = "\x1b[2m",
        [TONE_GOOD] = "\x1b[32m", [TONE_WARN] = "\x1b[33m", [TONE_BAD] = "\x1b[31m",
    };

    if (c->style->colour)
        canvas_append_str(c, codes[tone]);
}

static void canvas_end_tone(struct top_canvas *c, enum top_tone tone)
{
    if (c->style->colour && tone != TONE_PLAIN)
        canvas_append_str(c, "\x1b[0m");
}

static int canvas_room_of(const struct top_canvas *c)
{
    return c->style->width - c->column;
}

static void canvas_put_bytes(struct top_canvas *c, enum top_tone tone, const char *text, int count)
{
    count = count < canvas_room_of(c) ? count : canvas_room_of(c);
    if (count <= 0)
        return;
    canvas_begin_tone(c, tone);
    for (int i = 0; i < count; i++) {
        char byte = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';

        canvas_append(c, &byte, 1);
    }
    canvas_end_tone(c, tone);
    c->column += count;
}

void top_canvas_put(struct top_canvas *c, enum top_tone tone, const char *text)
{
    canvas_put_bytes(c, tone, text, (int)strlen(text));
}

void top_canvas_pad(struct top_canvas *c, int column)
{
    while (c->column < column && canvas_room_of(c) > 0)
        canvas_put_bytes(c, TONE_PLAIN, " ", 1);
}

void top_canvas_cell(struct top_canvas *c, enum top_tone tone, const char *text, int width,
                     bool right)
{
    static const char cut[] = "...";
    int start = c->column, length = (int)strlen(text);

    if (length > width) {
        int kept = width > (int)sizeof(cut) ? width - (int)(sizeof(cut) - 1) : width;

        canvas_put_bytes(c, tone, text, kept);
        canvas_put_bytes(c, tone, cut, width - kept);
        return;
    }
    if (right)
        top_canvas_pad(c, start + width - length);
    canvas_put_bytes(c, tone, text, length);
    top_canvas_pad(c, start + width);
}

/* One to seven eighths of a cell, from the left: U+258F to U+2589. */
static void canvas_append_eighths(struct top_canvas *c, int eighths)
{
    const char cell[] = {'\xe2', '\x96', (char)('\x90' - eighths)};

    canvas_append(c, cell, sizeof(cell));
}

void top_canvas_bar(struct top_canvas *c, enum top_tone tone, double part, int width)
{
    int whole, eighths;

    width = width < canvas_room_of(c) ? width : canvas_room_of(c);
    if (width <= 0)
        return;
    part = part > 0 ? part : 0; /* also what is no number */
    part = part < 1 ? part : 1;
    eighths = (int)(part * width * EIGHTHS + 0.5);
    /* Something that is left is seen. */
    eighths = part > 0 && eighths == 0 ? 1 : eighths;
    whole = c->style->unicode ? eighths / EIGHTHS : (eighths + EIGHTHS / 2 - 1) / EIGHTHS;
    whole = part > 0 && !c->style->unicode && whole == 0 ? 1 : whole;
    canvas_begin_tone(c, tone);
    for (int i = 0; i < whole; i++)
        canvas_append_str(c, c->style->unicode ? "\u2588" : "#");
    if (c->style->unicode && eighths % EIGHTHS)
        canvas_append_eighths(c, eighths % EIGHTHS);
    canvas_end_tone(c, tone);
    whole += c->style->unicode && eighths % EIGHTHS;
    if (whole < width)
        canvas_begin_tone(c, TONE_DIM);
    for (int i = whole; i < width; i++)
        canvas_append_str(c, c->style->unicode ? "\u00b7" : ".");
    if (whole < width)
        canvas_end_tone(c, TONE_DIM);
    c->column += width;
}

void top_canvas_end_line(struct top_canvas *c)
{
    while (c->length && c->text[c->length - 1] == ' ')
        c->length--;
    canvas_append(c, "\n", 1);
    c->column = 0;
    c->lines++;
}
