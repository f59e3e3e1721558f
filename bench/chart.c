/* SPDX-License-Identifier: Apache-2.0
 * bench/chart.c: see chart.h. */
#include "chart.h"

#include <stdio.h>
#include <string.h>

enum {
    WIDTH = 960,
    LABEL_SIZE = 12,
    BAR_HEIGHT = 16,
    GROUP_GAP = 26,
    TOP = 64,
    LEFT = 24,
    BAR_LEFT = 150,
    BAR_MOST = 640
};
enum { COLOURS = 5 };

static const char *const colours[COLOURS] = { "#2563a8", "#d98324", "#4f9d69", "#8f5aa8", "#777777" };

static void put_escaped(FILE *file, const char *text)
{
    for (; *text; text++) {
        if (*text == '<')
            fputs("&lt;", file);
        else if (*text == '>')
            fputs("&gt;", file);
        else if (*text == '&')
            fputs("&amp;", file);
        else
            fputc(*text, file);
    }
}

static void put_text(FILE *file, int x, int y, const char *weight, const char *text)
{
    fprintf(file, "<text x=\"%d\" y=\"%d\" font-weight=\"%s\">", x, y, weight);
    put_escaped(file, text);
    fputs("</text>\n", file);
}

/* The colour of a name: the order of first appearance. */
static const char *colour_of(const struct chart_bar *bars, int at)
{
    int seen = 0, i, j;
    for (i = 0; i <= at; i++) {
        for (j = 0; j < i && strcmp(bars[j].name, bars[i].name) != 0; j++) continue;
        if (j < i) continue;
        if (strcmp(bars[i].name, bars[at].name) == 0) return colours[seen < COLOURS ? seen : COLOURS - 1];
        seen++;
    }
    return colours[COLOURS - 1];
}

static bool begins_group(const struct chart_bar *bars, int i)
{
    return i == 0 || strcmp(bars[i].group, bars[i - 1].group) != 0;
}

bool chart_write(const char *path, const char *title, const char *unit, const struct chart_bar *bars, int count)
{
    FILE *file = fopen(path, "w");
    double largest = 0;
    int height = TOP, y = TOP, i;
    if (!file) return false;
    for (i = 0; i < count; i++) {
        if (bars[i].value > largest) largest = bars[i].value;
        height += BAR_HEIGHT + (begins_group(bars, i) ? GROUP_GAP : 0);
    }
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" "
            "font-size=\"%d\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
            WIDTH, height + 24, LABEL_SIZE);
    put_text(file, LEFT, 28, "bold", title);
    put_text(file, LEFT, 46, "normal", unit);
    for (i = 0; i < count; i++) {
        const int width = largest > 0 ? (int)(bars[i].value / largest * BAR_MOST) : 0;
        char value[32];
        if (begins_group(bars, i)) {
            y += GROUP_GAP;
            put_text(file, LEFT, y - 5, "normal", bars[i].group);
        }
        put_text(file, LEFT + 12, y + 12, "normal", bars[i].name);
        fprintf(file, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"%s\"/>\n", BAR_LEFT, y + 2,
                width > 0 ? width : 1, BAR_HEIGHT - 3, colour_of(bars, i));
        snprintf(value, sizeof value, "%.4g", bars[i].value);
        put_text(file, BAR_LEFT + width + 6, y + 12, "normal", value);
        y += BAR_HEIGHT;
    }
    fputs("</svg>\n", file);
    return fclose(file) == 0;
}
