"""The rooms of the library, from the top layer down, and the path of a model through them."""

import matplotlib.pyplot as plt

LAYERS = [
    ("cli    testing", ""),
    ("api", "Fit"),
    ("posterior", "moments, draws"),
    ("assess    plot    acquisition", ""),
    ("learning", "hyperparameters"),
    ("accuracy", "errors of q"),
    ("inference", "Plan, Problem, Run"),
    ("canonical", "GroundedModel, CanonicalModel"),
    ("graph    bounds    extend", "ModelGraph"),
    ("sites    structures    engines    priors    backends", "the parts"),
    ("contract", "the waist"),
    ("operators    language", "Ast, CheckedModel"),
    ("numerics    dataset    vocabulary", "Dataset, signatures"),
    ("arrays    errors    memory    files", ""),
]
fig, ax = plt.subplots(figsize=(7.5, 5.0))
for k, (rooms, stage) in enumerate(LAYERS):
    y = -k
    colour = "#cfe3f5" if "contract" in rooms else "#eef3f8"
    ax.add_patch(
        plt.Rectangle((0.0, y - 0.42), 6.2, 0.84, facecolor=colour, edgecolor="0.6", linewidth=0.7)
    )
    ax.text(3.1, y, rooms, ha="center", va="center", fontsize=9)
    ax.text(6.4, y, stage, ha="left", va="center", fontsize=8, color="0.35")
ax.annotate(
    "",
    xy=(-0.3, -len(LAYERS) + 0.6),
    xytext=(-0.3, 0.4),
    arrowprops={"arrowstyle": "->", "color": "0.5"},
)
ax.text(-0.5, -6.5, "imports", rotation=90, ha="center", va="center", fontsize=8, color="0.35")
ax.set(xlim=(-0.9, 9.3), ylim=(-len(LAYERS) + 0.4, 0.6))
ax.axis("off")
