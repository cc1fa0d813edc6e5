"""The functions of :mod:`mgrec.signal`."""
