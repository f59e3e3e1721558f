/* SPDX-License-Identifier: Apache-2.0
 * api/examples/minimal.c: a 3x3 convolution of an image of ones on the device named on the command line.
 * Build: cc minimal.c -lanydnn. Run: ./a.out cuda:0 (or opencl:0, cpu, auto). Prints 4 6 4, 6 9 6, 4 6 4. */
#include <anydnn/anydnn.h>
#include <stdio.h>

#define TRY(call) if ((call) != ANYDNN_OK) return fprintf(stderr, "%s\n", anydnn_message()), 1

int main(int argc, char **argv)
{
    float x[9] = { 1, 1, 1, 1, 1, 1, 1, 1, 1 }, w[9] = { 1, 1, 1, 1, 1, 1, 1, 1, 1 }, y[9];
    const anydnn_tensor shape = anydnn_tensor_nchw(ANYDNN_F32, 1, 1, 3, 3);
    anydnn_context *context;
    anydnn_stream *stream;
    anydnn_mem dx, dw, dy;
    anydnn_conv conv = anydnn_conv_init();
    conv.pad[0] = conv.pad[1] = 1;
    TRY(anydnn_open(argc > 1 ? argv[1] : "auto", NULL, &context));
    TRY(anydnn_stream_create(context, 0, &stream));
    TRY(anydnn_alloc(context, sizeof x, &dx));
    TRY(anydnn_alloc(context, sizeof w, &dw));
    TRY(anydnn_alloc(context, sizeof y, &dy));
    TRY(anydnn_copy_in(stream, dx, x, sizeof x));
    TRY(anydnn_copy_in(stream, dw, w, sizeof w));
    TRY(anydnn_conv_forward(stream, &conv, &shape, dx, &shape, dw, NULL, anydnn_mem_none(), &shape, dy));
    TRY(anydnn_copy_out(stream, y, dy, sizeof y));
    TRY(anydnn_stream_sync(stream));
    for (int i = 0; i < 9; i++) printf("%g%c", y[i], i % 3 == 2 ? '\n' : ' ');
    anydnn_free(context, dx), anydnn_free(context, dw), anydnn_free(context, dy);
    anydnn_stream_destroy(stream);
    anydnn_close(context);
    return 0;
}
