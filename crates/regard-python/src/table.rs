//! Tables that pandas, polars and pyarrow open through the Arrow C stream interface, without any of them being needed.
//!
//! The interface is two structures of plain C (<https://arrow.apache.org/docs/format/CDataInterface.html>); a crate for it would
//! bring all of Arrow.

use crate::error::problem;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::Arc;

/// The values of a column.
#[derive(FromPyObject, IntoPyObject, Clone)]
pub enum Values {
    /// Whole numbers.
    Whole(Vec<i64>),
    /// Numbers; those that are not known are NaN here and null in Arrow.
    Reals(Vec<f64>),
    /// Texts.
    Texts(Vec<String>),
}

impl Values {
    fn len(&self) -> usize {
        match self {
            Self::Whole(values) => values.len(),
            Self::Reals(values) => values.len(),
            Self::Texts(values) => values.len(),
        }
    }

    /// Arrow's name of the type.
    fn format(&self) -> &'static CStr {
        match self {
            Self::Whole(_) => c"l",
            Self::Reals(_) => c"g",
            Self::Texts(_) => c"u",
        }
    }
}

/// A table: columns of the same length, by name.
#[pyclass(frozen, module = "regard._regard")]
pub struct Columns(Arc<Vec<(String, Values)>>);

impl Columns {
    /// Columns by name.
    pub fn of(columns: Vec<(&str, Values)>) -> Self {
        Self(Arc::new(columns.into_iter().map(|(name, values)| (name.to_owned(), values)).collect()))
    }
}

#[pymethods]
impl Columns {
    #[new]
    fn new(columns: Vec<(String, Values)>) -> PyResult<Self> {
        let length = columns.first().map_or(0, |(_, values)| values.len());
        if columns.iter().any(|(_, values)| values.len() != length) {
            return Err(problem("the columns of a table have the same length"));
        }
        Ok(Self(Arc::new(columns)))
    }

    fn names(&self) -> Vec<String> {
        self.0.iter().map(|(name, _)| name.clone()).collect()
    }

    fn get(&self, name: &str) -> PyResult<Values> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, values)| values.clone()).ok_or_else(|| {
            problem(format!("there is no column {name}; there are {}", self.names().join(", ")))
        })
    }

    fn __len__(&self) -> usize {
        self.0.first().map_or(0, |(_, values)| values.len())
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // A consumer may ask for other types; the interface allows to answer with one's own.
        let _ = requested_schema;
        PyCapsule::new_with_value(py, Stream::new(&self.0), c"arrow_array_stream")
    }
}

#[repr(C)]
struct Schema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *mut *mut Schema,
    dictionary: *mut Schema,
    release: Option<unsafe extern "C" fn(*mut Schema)>,
    private_data: *mut c_void,
}

#[repr(C)]
struct Array {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *mut *const c_void,
    children: *mut *mut Array,
    dictionary: *mut Array,
    release: Option<unsafe extern "C" fn(*mut Array)>,
    private_data: *mut c_void,
}

#[repr(C)]
struct Stream {
    get_schema: Option<unsafe extern "C" fn(*mut Stream, *mut Schema) -> c_int>,
    get_next: Option<unsafe extern "C" fn(*mut Stream, *mut Array) -> c_int>,
    get_last_error: Option<unsafe extern "C" fn(*mut Stream) -> *const c_char>,
    release: Option<unsafe extern "C" fn(*mut Stream)>,
    private_data: *mut c_void,
}

/// What a stream still has to give.
struct Source {
    columns: Arc<Vec<(String, Values)>>,
    given: bool,
}

// SAFETY: the pointers of a stream are to what it alone owns, which may be used and freed from any thread.
unsafe impl Send for Stream {}

impl Stream {
    fn new(columns: &Arc<Vec<(String, Values)>>) -> Self {
        let source = Box::new(Source { columns: Arc::clone(columns), given: false });
        Self {
            get_schema: Some(get_schema),
            get_next: Some(get_next),
            get_last_error: Some(no_error),
            release: Some(release_stream),
            private_data: Box::into_raw(source).cast(),
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: a stream that was not taken is released once, here; whoever takes one sets `release` to null.
            unsafe { release(self) }
        }
    }
}

unsafe extern "C" fn no_error(_: *mut Stream) -> *const c_char {
    null()
}

unsafe extern "C" fn release_stream(stream: *mut Stream) {
    // SAFETY: the interface promises a valid stream that is not released yet; its data came from a box.
    unsafe {
        drop(Box::from_raw((*stream).private_data.cast::<Source>()));
        (*stream).release = None;
    }
}

/// What a schema points to.
struct SchemaParts {
    name: CString,
    children: Vec<*mut Schema>,
}

/// The children of a structure that is about to be freed.
fn leaked<T>(items: impl Iterator<Item = T>) -> Vec<*mut T> {
    items.map(|item| Box::into_raw(Box::new(item))).collect()
}

fn schema(format: &'static CStr, name: &str, children: Vec<Schema>) -> Schema {
    /// Values may be null.
    const NULLABLE: i64 = 2;
    let name = CString::new(name.replace('\0', "")).unwrap_or_default();
    let mut parts = Box::new(SchemaParts { name, children: leaked(children.into_iter()) });
    Schema {
        format: format.as_ptr(),
        name: parts.name.as_ptr(),
        metadata: null(),
        flags: NULLABLE,
        n_children: parts.children.len() as i64,
        children: parts.children.as_mut_ptr(),
        dictionary: null_mut(),
        release: Some(release_schema),
        private_data: Box::into_raw(parts).cast(),
    }
}

unsafe extern "C" fn release_schema(schema: *mut Schema) {
    // SAFETY: the interface promises a valid schema that is not released yet; its data and its children came from boxes. A child
    // that was taken has no `release` any more.
    unsafe {
        let parts = Box::from_raw((*schema).private_data.cast::<SchemaParts>());
        for &child in &parts.children {
            if let Some(release) = (*child).release {
                release(child);
            }
            drop(Box::from_raw(child));
        }
        (*schema).release = None;
    }
}

unsafe extern "C" fn get_schema(stream: *mut Stream, out: *mut Schema) -> c_int {
    // SAFETY: the interface promises a valid stream and room for a schema.
    unsafe {
        let source = &*(*stream).private_data.cast::<Source>();
        let child = |(name, values): &(String, Values)| schema(values.format(), name, Vec::new());
        let whole = schema(c"+s", "", source.columns.iter().map(child).collect());
        out.write(whole);
    }
    0
}

/// What an array points to; some of it is only kept where it is.
#[allow(dead_code)]
struct ArrayParts {
    /// Keeps whole and real numbers where they are.
    columns: Arc<Vec<(String, Values)>>,
    /// What was made for Arrow: which values are known, where texts end, their bytes.
    known: Vec<u8>,
    ends: Vec<i32>,
    bytes: Vec<u8>,
    buffers: Vec<*const c_void>,
    children: Vec<*mut Array>,
}

unsafe extern "C" fn release_array(array: *mut Array) {
    // SAFETY: as of schemas.
    unsafe {
        let parts = Box::from_raw((*array).private_data.cast::<ArrayParts>());
        for &child in &parts.children {
            if let Some(release) = (*child).release {
                release(child);
            }
            drop(Box::from_raw(child));
        }
        (*array).release = None;
    }
}

fn array(length: usize, null_count: usize, mut parts: Box<ArrayParts>) -> Array {
    Array {
        length: length as i64,
        null_count: null_count as i64,
        offset: 0,
        n_buffers: parts.buffers.len() as i64,
        n_children: parts.children.len() as i64,
        buffers: parts.buffers.as_mut_ptr(),
        children: parts.children.as_mut_ptr(),
        dictionary: null_mut(),
        release: Some(release_array),
        private_data: Box::into_raw(parts).cast(),
    }
}

fn column(columns: &Arc<Vec<(String, Values)>>, number: usize) -> Array {
    let mut parts = Box::new(ArrayParts {
        columns: Arc::clone(columns),
        known: Vec::new(),
        ends: Vec::new(),
        bytes: Vec::new(),
        buffers: vec![null()],
        children: Vec::new(),
    });
    let values = &columns[number].1;
    let mut nulls = 0;
    match values {
        Values::Whole(values) => parts.buffers.push(values.as_ptr().cast()),
        Values::Reals(values) => {
            nulls = values.iter().filter(|value| value.is_nan()).count();
            if nulls > 0 {
                parts.known = vec![0; values.len().div_ceil(8)];
                for (i, _) in values.iter().enumerate().filter(|(_, value)| !value.is_nan()) {
                    parts.known[i / 8] |= 1 << (i % 8);
                }
                parts.buffers[0] = parts.known.as_ptr().cast();
            }
            parts.buffers.push(values.as_ptr().cast());
        }
        Values::Texts(texts) => {
            parts.ends.push(0);
            for text in texts {
                parts.bytes.extend_from_slice(text.as_bytes());
                parts.ends.push(i32::try_from(parts.bytes.len()).unwrap_or(i32::MAX));
            }
            parts.buffers.push(parts.ends.as_ptr().cast());
            parts.buffers.push(parts.bytes.as_ptr().cast());
        }
    }
    array(values.len(), nulls, parts)
}

unsafe extern "C" fn get_next(stream: *mut Stream, out: *mut Array) -> c_int {
    // SAFETY: the interface promises a valid stream and room for an array. An array without `release` is the end.
    unsafe {
        let source = &mut *(*stream).private_data.cast::<Source>();
        if std::mem::replace(&mut source.given, true) {
            (*out).release = None;
            return 0;
        }
        let length = source.columns.first().map_or(0, |(_, values)| values.len());
        let columns = &source.columns;
        let parts = Box::new(ArrayParts {
            columns: Arc::clone(columns),
            known: Vec::new(),
            ends: Vec::new(),
            bytes: Vec::new(),
            buffers: vec![null()],
            children: leaked((0..columns.len()).map(|number| column(columns, number))),
        });
        out.write(array(length, 0, parts));
    }
    0
}
