/* SPDX-License-Identifier: Apache-2.0
 * common/text.h: the text form of problems (grammar in anydnn/problem.h). Generic over the operations' tables. */
#ifndef ADN_TEXT_H
#define ADN_TEXT_H
#include "problem.h"

/* Parses one line. INVALID with a message that names the word. */
anydnn_status adn_text_parse(const char *line, struct adn_problem *p);

/* Prints the full line, cut to capacity (always zero-terminated when capacity > 0); returns its full length. */
size_t adn_text_print(const struct adn_problem *p, char *text, size_t capacity);

#endif
