//! Writes that make only their own bytes durable.

use crate::journal::{MemDisk, RealDisk};

#[test]
fn durable_writes_survive_a_power_cut_and_hide_older_ones() {
    let mut others_lost = false;
    for seed in 0..20 {
        let disk = MemDisk::new(seed);
        let file = disk.disk().create("x").unwrap();
        disk.disk().sync_dir().unwrap();
        file.write_at(0, &[1; 1536]).unwrap();
        file.sync_data().unwrap();
        file.write_at(0, &[2; 512]).unwrap();
        file.write_at(512, &[3; 512]).unwrap();
        file.write_at(1024, &[4; 512]).unwrap();
        file.write_durable_at(512, &[5; 512]).unwrap();
        disk.power_cut();
        let mut kept = [0; 1536];
        disk.disk().open("x").unwrap().read_at(0, &mut kept).unwrap();
        assert_eq!(kept[512..1024], [5; 512], "seed {seed}");
        others_lost |= kept[..512] == [1; 512] || kept[1024..] == [1; 512];
    }
    assert!(others_lost);
}

#[test]
fn a_durable_write_that_fails_is_lost_and_says_so() {
    let disk = MemDisk::new(1);
    let file = disk.disk().create("x").unwrap();
    disk.disk().sync_dir().unwrap();
    file.write_at(0, &[1; 1024]).unwrap();
    file.sync_data().unwrap();
    disk.fail_nth_sync(1);
    file.write_durable_at(512, &[2; 512]).unwrap_err();
    file.sync_data().unwrap();
    disk.power_cut();
    let mut kept = [0; 1024];
    disk.disk().open("x").unwrap().read_at(0, &mut kept).unwrap();
    assert_eq!(kept, [1; 1024]);
}

#[test]
fn a_real_file_holds_its_durable_writes() {
    let dir = tempfile::tempdir().unwrap();
    let file = RealDisk::open(dir.path()).unwrap().create("x").unwrap();
    file.write_durable_at(3, b"later").unwrap();
    file.write_durable_at(0, b"the").unwrap();
    let mut bytes = [0; 8];
    file.read_at(0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"thelater");
    assert_eq!(file.len().unwrap(), 8);
}
