"""What a data set is, from bytes to splits: readers, connectivity, the doctor, the folder on disk.

May not be here: augmentation, models, anything that learns from more than one subject.
"""
