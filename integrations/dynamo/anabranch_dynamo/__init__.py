"""Anabranch workers (`anabranch serve`) as a backend of NVIDIA Dynamo."""
