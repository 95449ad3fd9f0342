"""What a person sees: the Dagster UI of a small root, opened with a real browser.

Here: the web server and the browser, the root that they show, and tests of its pages. Not here: what a daemon does
(``live``), what the metadata holds (``defs``).
"""
