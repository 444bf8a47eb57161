"""A third, independent maker of labelled federated runs, set up the way the field sets up its experiments.

It shares nothing with the laboratory but the recorder: own data, nets, training, honest changes and attacks.
``python -m benchmarks.third_hand make OUT --half development --first 0 --count 20``
"""
