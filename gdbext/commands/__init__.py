"""Commands: arguments -> snapshot -> report, without words. `every` has the list of them."""
