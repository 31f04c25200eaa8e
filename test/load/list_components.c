/*
 * Prints the names of all UCT components, one per line: does UCX find vqp?
 * Uses UCT's public API only.
 */
#include <uct/api/uct.h>

#include <stdio.h>

int main(void)
{
    uct_component_attr_t attr = {.field_mask = UCT_COMPONENT_ATTR_FIELD_NAME};
    uct_component_h *components;
    unsigned num_components, i;

    if (uct_query_components(&components, &num_components) != UCS_OK) {
        fprintf(stderr, "uct_query_components failed\n");
        return 1;
    }

    for (i = 0; i < num_components; ++i) {
        if (uct_component_query(components[i], &attr) != UCS_OK) {
            fprintf(stderr, "uct_component_query failed\n");
            return 1;
        }
        printf("%s\n", attr.name);
    }

    uct_release_component_list(components);
    return 0;
}
