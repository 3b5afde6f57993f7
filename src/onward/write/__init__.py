"""Writing an `onnx_ir.Model`: streamed from the weights' own memory, atomically, with external data where needed."""

from onward.write.destinations import WrittenFiles
from onward.write.writer import model_bytes, to_proto, write_model

__all__ = ["WrittenFiles", "model_bytes", "to_proto", "write_model"]
