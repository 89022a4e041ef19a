"""The first-fit index: of the requests that are at most what is free, which has the least queue position?

Enter at `index.py`, class `Index`; other packages need only this class. `range_tree.py` explains the structure and
answers queries, `build.py` builds and joins trees in small steps.

Few requests are a sorted list. Many are range trees in flat arrays, joined as they grow, so a query takes about log^k
n looks for k resources, and no single change waits for a large tree.

Pure; imports the standard library only.

When a request leaves, its point stays in the tree with an order after all others, until the next join drops it. So a
query during a join is answered by the old trees and is never wrong, only a little slower.
"""
