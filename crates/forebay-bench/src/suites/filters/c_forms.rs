//! The paper's two C programs of a filter, by the system's compilers.

use std::path::Path;

use forebay_codegen::c;
use forebay_filter::ir::Function;

use crate::peers::c_code::CCode;

/// Which of the two.
#[derive(Clone, Copy, Debug)]
pub enum Form {
    /// With labels and `goto`, the paper's list 2.
    Unstructured,
    /// With nested conditions, the paper's list 3.
    Structured,
}

/// Compiles the C form of `function`; the files in `folder` are called `name`.
pub fn compile(
    function: &Function,
    form: Form,
    compiler: &Path,
    folder: &Path,
    name: &str,
) -> Result<CCode, String> {
    let text = match form {
        Form::Unstructured => c::unstructured(function),
        Form::Structured => c::structured(function),
    };
    CCode::compile(compiler, &text, folder, name)
}
