
use std::collections::HashMap;
#[inline(never)]
fn find_tile(tiles: &HashMap<u32, Vec<u8>>, number: u32) -> u8 {
    tiles.get(&number).map(|tile| tile[7]).unwrap_or(0)
}
#[no_mangle]
pub extern "C" fn first_pixel(number: u32) -> u8 {
    let mut tiles = HashMap::new();
    tiles.insert(number, vec![1, 2, 3]);
    find_tile(&tiles, number)
}
