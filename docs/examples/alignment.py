"""
Align two globins: smith_waterman
=================================

Haemoglobin carries oxygen in the blood, and myoglobin in the muscle. Both evolved from one
ancestor. mgrec computes the grid of the scores of their amino acids (Smith and Waterman 1981). The
best local alignment ends at the largest element of the grid, and the path back from there is the
alignment.

The sequences are human haemoglobin alpha and myoglobin: UniProt P69905 and P02144 (CC BY 4.0).
"""

import matplotlib.pyplot as plt
import numpy as np

import mgrec

hemoglobin = (
    "MVLSPADKTNVKAAWGKVGAHAGEYGAEALERMFLSFPTTKTYFPHFDLSHGSAQVKGHG"
    "KKVADALTNAVAHVDDMPNALSALSDLHAHKLRVDPVNFKLLSHCLLVTLAAHLPAEFTP"
    "AVHASLDKFLASVSTVLTSKYR"
)
myoglobin = (
    "MGLSDGEWQLVLNVWGKVEADIPGHGQEVLIRLFKGHPETLEKFDKFKHLKSEDEMKASE"
    "DLKKHGATVLTALGGILKKKGHHEAEIKPLAQSHATKHKIPVKYLEFISECIIQVLQSKH"
    "PGDFGADAQGAMNKALELFRKDMASNYKELGFQG"
)

# %%
# BLOSUM62 scores a pair of amino acids by the frequency with which evolution has replaced one by
# the other. The first character of a gap costs 11, and each further one costs 1.

scoring = {"matrix": "BLOSUM62", "gap": -11, "extend": -1}
best = mgrec.smith_waterman(hemoglobin, myoglobin, output="alignment", **scoring)
str(best).splitlines()

# %%
# The picture shows the whole grid and the path of the alignment.

grid = mgrec.smith_waterman(hemoglobin, myoglobin, output="matrix", **scoring)
query, _, target = (np.array(list(line)) for line in best.lines)
rows = best.query_begin - 1 + np.cumsum(query != "-")
columns = best.target_begin - 1 + np.cumsum(target != "-")

fig, axes = plt.subplots(figsize=(8, 7))
image = axes.imshow(grid, cmap="magma_r", origin="upper")
axes.plot(columns, rows, color="#0891b2", linewidth=1.6)
axes.set(
    title=f"score {best.score}: the best local alignment", xlabel="myoglobin", ylabel="haemoglobin alpha"
)
fig.colorbar(image, ax=axes, shrink=0.7, label="best score of an alignment that ends here")
plt.show()
