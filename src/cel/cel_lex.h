/* Tokens of CEL. Private to the parser. */
#ifndef BH_CEL_CEL_LEX_H
#define BH_CEL_CEL_LEX_H

#include "cel/cel_int.h"

enum cel_tok {
    T_EOF,
    T_ERROR,   /* nothing that could be parsed; an issue was added */
    T_SKIPPED, /* a token recognition error, within the lexer only */
    T_IDENT,
    T_INT,
    T_UINT,
    T_DOUBLE,
    T_STRING,
    T_BYTES,
    T_TRUE,
    T_FALSE,
    T_NULL,
    T_IN,
    T_EQ,
    T_NE,
    T_LT,
    T_LE,
    T_GT,
    T_GE,
    T_AND,
    T_OR,
    T_LBRACKET,
    T_RBRACKET,
    T_LBRACE,
    T_RBRACE,
    T_LPAREN,
    T_RPAREN,
    T_DOT,
    T_COMMA,
    T_MINUS,
    T_NOT,
    T_QUESTION,
    T_COLON,
    T_PLUS,
    T_STAR,
    T_SLASH,
    T_PERCENT,
    T_QUOTED /* `a field's name`, which the grammar knows and the environment does not allow */
};

struct cel_token {
    enum cel_tok kind;
    uint32_t pos, end; /* byte offsets */
};

/* The token at or after *pos; moves *pos past it. */
struct cel_token cel_lex(struct cel_compiler *c, uint32_t *pos);
/* The value of a string or bytes token; false with an issue added. */
bool cel_unescape(struct cel_compiler *c, struct cel_token t, struct bh_cel_value *ret);

#endif
