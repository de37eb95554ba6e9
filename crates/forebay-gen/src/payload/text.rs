//! Text bodies: a repeated passage, with a start chosen by the seed.

const PASSAGE: &str = "<p>The river comes down from the hills in spring and \
spreads over the meadows, and by the first week of June the grass stands as high \
as the gate.</p>\r\n<ul>\r\n<li><a href=\"/towns/17\">Market towns</a></li>\r\n\
<li><a href=\"/maps/east\">Maps of the eastern shore</a></li>\r\n</ul>\r\n\
<table class=\"tides\"><tr><td>High water</td><td>04:12</td><td>3.9 m</td></tr>\
<tr><td>Low water</td><td>10:31</td><td>0.8 m</td></tr></table>\r\n<p>Boats leave \
the old quay every twenty minutes; bicycles travel free outside of the rush hour. \
A day ticket is sold at the kiosk, or through the account page, where the order \
number has to be entered together with the name of the passenger.</p>\r\n\
<script>var page = {\"id\": 48213, \"lang\": \"en\", \"items\": [1, 2, 3, 5, 8]};\
</script>\r\n<p>Further reading: the harbour records from 1822 on, the survey of \
the dunes, and the letters of the lighthouse keepers.</p>\r\n";

/// Writes the bytes `offset..` of the text of `seed`.
pub fn fill(seed: u64, offset: u32, out: &mut [u8]) {
    let passage = PASSAGE.as_bytes();
    let mut at = ((seed >> 8) as usize % passage.len() + offset as usize) % passage.len();
    let mut rest = out;
    while !rest.is_empty() {
        let n = rest.len().min(passage.len() - at);
        let (head, tail) = rest.split_at_mut(n);
        head.copy_from_slice(&passage[at..at + n]);
        rest = tail;
        at = 0;
    }
}
