/* SPDX-License-Identifier: Apache-2.0
 * anydnn/tune.h: choosing engines by measurement, and keeping what was measured.
 *
 * Automatic choice goes by estimated cost. A context that has measured a problem, or loaded a file of measurements,
 * prefers the engine that was fastest then: for every later plan and one-shot call with an equal problem (everything
 * that plan equality counts but alignment and workspace limit), as long as that engine, with its parameters, still
 * accepts the problem within the caller's wishes. An engine named in prefs wins over any measurement. Engines that are
 * chosen by measurement sum in other orders: results may differ in rounding between contexts with and without a tuning
 * file.
 *
 * Tuning files are text, one entry a line ("ENGINE_ID REVISION NS DEVICE | PROBLEM"); they may be concatenated, sorted
 * and edited. Lines that are malformed, of an unknown engine or of another revision of it are ignored. The file that
 * the environment variable ANYDNN_TUNING names (read once, when the device list is first built) is loaded when a
 * context is opened; a missing file is no failure.
 */
#ifndef ANYDNN_TUNE_H
#define ANYDNN_TUNE_H
#include <anydnn/plan.h>
#ifdef __cplusplus
extern "C" {
#endif

/* Measures the candidates of a problem (anydnn_candidates) on the memory bound and remembers the best in the stream's
 * context. This is the slow call: it compiles kernels, allocates memory of the size of the outputs (device once, host
 * twice) and waits for the device. What is bound is read and stays as it is: the outputs are measured on scratch copies
 * at the same alignment.
 *   Engines    those of anydnn_candidates, in cost order, but for slow starters (ANYDNN_TRAIT_SLOW_START); with
 *              prefs->engine only that one, and nothing is remembered. prefs->workspace_limit 0 = the stream's
 *              workspace, which bounds it in any case.
 *   Budget     budget_ns bounds the running time of all measurements together (0 = 200 ms); compilation and the final
 *              check come on top. One candidate is measured in any case; what the budget does not reach is left out, and so
 *              is a candidate of which one run should take longer than what is left.
 *              Each gets a warm-up and repeated runs between two events; one that is slower than twice the best at its
 *              first run is not run again.
 *   Check      the winner's outputs are compared with those of the plainest engine (ANYDNN_TRAIT_GENERIC) of the same
 *              device, within tolerances of dtype and depth. An engine that differs is dropped, with a warning in the
 *              log, and the next best is checked.
 * Writes up to `capacity` verdicts, best first (rows may be NULL with capacity 0), estimated_ns = the measured median,
 * and the number there is to *rows_count. One-shot calls forget the plans that they made before.
 * INVALID: as anydnn_run, and a budget that is negative or not a number. UNSUPPORTED: no candidate runs.
 * OUT_OF_MEMORY, DEVICE, INTERNAL. Nothing is remembered then. */
ANYDNN_API anydnn_status anydnn_find(anydnn_stream *stream, const anydnn_op *op, const anydnn_prefs *prefs,
                                     const anydnn_binding *bindings, int count, double budget_ns, anydnn_verdict *rows,
                                     int capacity, int *rows_count);

/* Takes the entries of a file for the context's device over, later lines before earlier ones and before what the
 * context had; at most 65536 are kept. What was ignored is counted in a log message. Plans that exist keep their
 * engines. INVALID: NULL; a path that cannot be read. OUT_OF_MEMORY. */
ANYDNN_API anydnn_status anydnn_tuning_load(anydnn_context *context, const char *path);

/* Merges what the context knows into a file, which is made if it is not there: of two entries for one problem the
 * faster stays, entries of other devices stay, and so do comments and malformed lines of text, before the entries. The
 * file is replaced at once: a reader sees the old or the new one. No lock is taken: programs that save at the same
 * moment merge what they find that they displaced, so nothing is lost, except where the system cannot exchange two
 * files (Linux can, on local file systems): there one of them may undo the other's additions.
 * INVALID: NULL; a path that cannot be written, or a file there that cannot be read. OUT_OF_MEMORY. */
ANYDNN_API anydnn_status anydnn_tuning_save(anydnn_context *context, const char *path);

#ifdef __cplusplus
}
#endif
#endif
