/* SPDX-License-Identifier: Apache-2.0
 * bench/commands.h: the subcommands of `anydnn`. Each takes its own argument vector (argv[0] = its name) and returns
 * the exit code of the program. */
#ifndef ADN_BENCH_COMMANDS_H
#define ADN_BENCH_COMMANDS_H

/* Exit codes of the command. */
enum {
    EXIT_GOOD = 0,      /* everything asked for was done, and every check passed */
    EXIT_FAILED = 1,    /* a check failed, or the work could not be done */
    EXIT_USAGE = 2,     /* wrong usage, or a malformed problem line */
    EXIT_NOTHING = 3,   /* nothing was run: no case was found */
    EXIT_NO_DEVICE = 77 /* the device that was named is not here; test runners count this as skipped */
};

int anydnn_info_main(int argc, char **argv);
int anydnn_list_main(int argc, char **argv);
int anydnn_explain_main(int argc, char **argv);
int anydnn_check_main(int argc, char **argv);
int anydnn_bench_main(int argc, char **argv);
int anydnn_tune_main(int argc, char **argv);
int anydnn_train_main(int argc, char **argv);

#endif
