"""What the decoded state means: snapshot of a target, merged stacks, locks and their holders, wait-for graph."""
