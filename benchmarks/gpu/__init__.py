"""The kit for half an hour with an accelerator: every figure of states, each part bounded in time and kept at once.

``kit`` runs the parts, each in a process of ``part``; ``machine``, ``windows``, ``edits`` and ``stores`` measure;
``report`` writes the table; ``wheels`` collects what a bare CUDA image lacks. On the CPU the same parts run on a small
model.
"""
