//! The lanes that compare a field with a constant.

use super::atom::Field;

/// The content of a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Element {
    /// The packet bytes of the lane, lowest byte first; `None` for 0.
    pub bytes: Vec<Option<u32>>,
    /// The relevant bits.
    pub mask: u32,
    /// The constant.
    pub constant: u32,
    /// The lane within the packet's part of the vector.
    pub lane: usize,
}

/// The bytes of a field that have bits in its mask, most significant first:
/// offset, mask, and the constant's bits.
fn significant(field: Field, constant: u32) -> impl Iterator<Item = (u32, u32, u32)> {
    (0..field.bytes).filter_map(move |index| {
        let shift = 8 * (field.bytes - 1 - index);
        let mask = field.mask >> shift & 0xff;
        (mask != 0).then_some((field.offset + index, mask, constant >> shift & 0xff))
    })
}

/// The lanes of `lane` bytes that compare `field` for equality.
pub(super) fn equal_elements(field: Field, constant: u32, lane: u32) -> Vec<Element> {
    let bytes: Vec<_> = significant(field, constant).collect();
    bytes
        .chunks(lane as usize)
        .map(|group| {
            let mut element =
                Element { bytes: vec![None; lane as usize], mask: 0, constant: 0, lane: 0 };
            for (position, &(offset, mask, constant)) in group.iter().enumerate() {
                element.bytes[position] = Some(offset);
                element.mask |= mask << (8 * position);
                element.constant |= constant << (8 * position);
            }
            element
        })
        .collect()
}

/// The lane that compares `field` for order; `None` if it is too wide.
pub(super) fn order_element(field: Field, constant: u32, lane: u32) -> Option<Element> {
    let used = (32 - field.mask.leading_zeros()).div_ceil(8).max(1);
    if used > lane {
        return None;
    }
    let last = field.offset + field.bytes - 1;
    let bytes = (0..lane).map(|position| (position < used).then(|| last - position)).collect();
    Some(Element { bytes, mask: field.mask, constant, lane: 0 })
}
