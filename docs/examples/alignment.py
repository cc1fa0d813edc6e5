"""
Two globins and the path between them
=====================================

Haemoglobin carries oxygen in the blood, myoglobin in the muscle, and both come from one ancestor.
The best local alignment of their amino acids (Smith and Waterman 1981) ends at the largest entry
of a grid that mgrec fills; the path back is the alignment.

Human haemoglobin alpha and myoglobin: UniProt P69905 and P02144 (CC BY 4.0).
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
# BLOSUM62 scores a pair of amino acids by how often evolution has put one in the other's place; a
# gap costs 11, and each further place of it 1.

scoring = {"matrix": "BLOSUM62", "gap": -11, "extend": -1}
found = mgrec.smith_waterman(hemoglobin, myoglobin, output="alignment", **scoring)
str(found).splitlines()

# %%
# The whole grid, and the path through it.

grid = mgrec.smith_waterman(hemoglobin, myoglobin, output="matrix", **scoring)
query, _, target = (np.array(list(line)) for line in found.lines)
rows = found.query_begin - 1 + np.cumsum(query != "-")
columns = found.target_begin - 1 + np.cumsum(target != "-")

fig, axes = plt.subplots(figsize=(8, 7))
image = axes.imshow(grid, cmap="magma_r", origin="upper")
axes.plot(columns, rows, color="#0891b2", linewidth=1.6)
axes.set(
    title=f"score {found.score}: the best local alignment",
    xlabel="myoglobin",
    ylabel="haemoglobin alpha",
)
fig.colorbar(image, ax=axes, shrink=0.7, label="best score that ends here")
plt.show()
