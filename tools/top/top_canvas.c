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

static void append(struct top_canvas *c, const char *bytes, size_t length)
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

static void append_str(struct top_canvas *c, const char *text)
{
    append(c, text, strlen(text));
}

static void begin_tone(struct top_canvas *c, enum top_tone tone)
{
    static const char *const codes[] = {
        [TONE_PLAIN] = "",        [TONE_BOLD] = "\x1b[1m",  [TONE_DIM] = "\x1b[2m",
        [TONE_GOOD] = "\x1b[32m", [TONE_WARN] = "\x1b[33m", [TONE_BAD] = "\x1b[31m",
    };

    if (c->style->colour)
        append_str(c, codes[tone]);
}

static void end_tone(struct top_canvas *c, enum top_tone tone)
{
    if (c->style->colour && tone != TONE_PLAIN)
        append_str(c, "\x1b[0m");
}

static int room_of(const struct top_canvas *c)
{
    return c->style->width - c->column;
}

static void put_bytes(struct top_canvas *c, enum top_tone tone, const char *text, int count)
{
    count = count < room_of(c) ? count : room_of(c);
    if (count <= 0)
        return;
    begin_tone(c, tone);
    for (int i = 0; i < count; i++) {
        char byte = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';

        append(c, &byte, 1);
    }
    end_tone(c, tone);
    c->column += count;
}

void top_canvas_put(struct top_canvas *c, enum top_tone tone, const char *text)
{
    put_bytes(c, tone, text, (int)strlen(text));
}

void top_canvas_pad(struct top_canvas *c, int column)
{
    while (c->column < column && room_of(c) > 0)
        put_bytes(c, TONE_PLAIN, " ", 1);
}

void top_canvas_cell(struct top_canvas *c, enum top_tone tone, const char *text, int width,
                     bool right)
{
    static const char cut[] = "...";
    int start = c->column, length = (int)strlen(text);

    if (length > width) {
        int kept = width > (int)sizeof(cut) ? width - (int)(sizeof(cut) - 1) : width;

        put_bytes(c, tone, text, kept);
        put_bytes(c, tone, cut, width - kept);
        return;
    }
    if (right)
        top_canvas_pad(c, start + width - length);
    put_bytes(c, tone, text, length);
    top_canvas_pad(c, start + width);
}

/* One to seven eighths of a cell, from the left: U+258F to U+2589. */
static void append_eighths(struct top_canvas *c, int eighths)
{
    const char cell[] = {'\xe2', '\x96', (char)('\x90' - eighths)};

    append(c, cell, sizeof(cell));
}

void top_canvas_bar(struct top_canvas *c, enum top_tone tone, double part, int width)
{
    int whole, eighths;

    width = width < room_of(c) ? width : room_of(c);
    if (width <= 0)
        return;
    part = part > 0 ? part : 0; /* also what is no number */
    part = part < 1 ? part : 1;
    eighths = (int)(part * width * EIGHTHS + 0.5);
    /* Something that is left is seen. */
    eighths = part > 0 && eighths == 0 ? 1 : eighths;
    whole = c->style->unicode ? eighths / EIGHTHS : (eighths + EIGHTHS / 2 - 1) / EIGHTHS;
    whole = part > 0 && !c->style->unicode && whole == 0 ? 1 : whole;
    begin_tone(c, tone);
    for (int i = 0; i < whole; i++)
        append_str(c, c->style->unicode ? "\u2588" : "#");
    if (c->style->unicode && eighths % EIGHTHS)
        append_eighths(c, eighths % EIGHTHS);
    end_tone(c, tone);
    whole += c->style->unicode && eighths % EIGHTHS;
    if (whole < width)
        begin_tone(c, TONE_DIM);
    for (int i = whole; i < width; i++)
        append_str(c, c->style->unicode ? "\u00b7" : ".");
    if (whole < width)
        end_tone(c, TONE_DIM);
    c->column += width;
}

void top_canvas_end_line(struct top_canvas *c)
{
    while (c->length && c->text[c->length - 1] == ' ')
        c->length--;
    append(c, "\n", 1);
    c->column = 0;
    c->lines++;
}
