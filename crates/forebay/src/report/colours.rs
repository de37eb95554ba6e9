//! Colours of sensors.

/// The most sensors with their own colours.
pub(super) const MOST_COLOURS: usize = 8;

/// The CSS colour of a sensor, or none if there are too few colours.
pub(super) fn sensor_colour(sensor: usize, sensors: usize) -> String {
    let coloured = sensors > 1 && sensors <= MOST_COLOURS;
    if coloured { format!(" style=\"--c:var(--c{sensor})\"") } else { String::new() }
}
