"""Reports out: text, JSON, Graphviz. A renderer sees a report and nothing of the target."""
