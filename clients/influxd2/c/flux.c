/* The functions of libflux, without Flux: what parses or runs it is an error. */
#include "influxdata/flux.h"
#include "types.h"

struct flux_error_t { int unused; };
struct flux_ast_pkg_t { int unused; };
struct flux_semantic_pkg_t { int unused; };
struct flux_stateful_analyzer_t { int unused; };

static struct flux_error_t none;
static struct flux_ast_pkg_t ast;
static struct flux_stateful_analyzer_t analyzer;
/* a list of no packages */
static char nothing[] = {8, 0, 0, 0, 4, 0, 4, 0, 4, 0, 0, 0};

void flux_semantic_packages(struct flux_buffer_t *b) { b->data = nothing; b->len = sizeof nothing; }
void flux_get_env_stdlib(struct flux_buffer_t *b) { b->data = types; b->len = sizeof types; }
void flux_free_error(struct flux_error_t *e) {}
const char *flux_error_str(struct flux_error_t *e) { return "this server has no Flux"; }
void flux_error_print(struct flux_error_t *e) {}
void flux_free_bytes(const char *p) {}
struct flux_ast_pkg_t *flux_parse(const char *n, const char *s) { return &ast; }
struct flux_error_t *flux_ast_format(struct flux_ast_pkg_t *p, struct flux_buffer_t *b) { return &none; }
struct flux_error_t *flux_ast_get_error(struct flux_ast_pkg_t *p, const char *o) { return &none; }
void flux_free_ast_pkg(struct flux_ast_pkg_t *p) {}
struct flux_error_t *flux_merge_ast_pkgs(struct flux_ast_pkg_t *a, struct flux_ast_pkg_t *b) { return &none; }
struct flux_error_t *flux_parse_json(const char *s, struct flux_ast_pkg_t **p) { return &none; }
struct flux_error_t *flux_ast_marshal_json(struct flux_ast_pkg_t *p, struct flux_buffer_t *b) { return &none; }
struct flux_stateful_analyzer_t *flux_new_stateful_analyzer(const char *o) { return &analyzer; }
void flux_free_stateful_analyzer(struct flux_stateful_analyzer_t *a) {}
struct flux_error_t *flux_analyze_with(struct flux_stateful_analyzer_t *a, const char *s, struct flux_ast_pkg_t *p, struct flux_semantic_pkg_t **o) { return &none; }
struct flux_error_t *flux_analyze(struct flux_ast_pkg_t *p, const char *o, struct flux_semantic_pkg_t **s) { return &none; }
struct flux_error_t *flux_find_var_type(struct flux_semantic_pkg_t *p, const char *n, struct flux_buffer_t *b) { return &none; }
void flux_free_semantic_pkg(struct flux_semantic_pkg_t *p) {}
struct flux_error_t *flux_semantic_marshal_fb(struct flux_semantic_pkg_t *p, struct flux_buffer_t *b) { return &none; }
