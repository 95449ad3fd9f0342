"""Measurements of the project's array store and comparable stores: random rows, writing, opening, verification."""
