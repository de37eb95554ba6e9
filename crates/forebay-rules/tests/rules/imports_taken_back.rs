//! Where lists of Cisco devices are applied, and what `no` takes back.

use forebay_rules::language::{Direction, Format, Options, open};

/// Interface, list and direction of all that is applied.
fn applied(text: &str) -> Vec<(String, String, Direction)> {
    let catalogue = open(Format::Cisco, text, &Options::default()).unwrap();
    let all = catalogue.applied().into_iter();
    all.map(|of| (of.interface, of.name, of.direction)).collect()
}

fn one(interface: &str, name: &str, direction: Direction) -> (String, String, Direction) {
    (interface.to_owned(), name.to_owned(), direction)
}

#[test]
fn what_is_taken_back_is_applied_no_more() {
    let lists = "access-list 101 permit ip any any\naccess-list 102 deny ip any any\n";
    let text = format!(
        "{lists}interface Gi0/0\n ip access-group 101 in\n ip access-group 101 out\n\
         interface Gi0/1\n ip access-group 101 in\n ipv6 traffic-filter SIX in\n!\n\
         interface Gi0/0\n no ip access-group 101 in\n ip access-group 102 in\n\
         interface Gi0/1\n no ip access-group 102 in\n no ipv6 traffic-filter SIX in\n"
    );
    let expected = [
        one("Gi0/0", "101", Direction::Out),
        one("Gi0/1", "101", Direction::In),
        one("Gi0/0", "102", Direction::In),
    ];
    assert_eq!(applied(&text), expected);
    // One list takes the other's place, and an interface is one however it is written.
    let text = "interface Serial0/0.1 point-to-point\n ip access-group 101 in\n\
                interface serial0/0.1\n ip access-group 102 in\n ipv6 traffic-filter SIX in\n\
                 no ip access-group 101 in\n\
                interface Gi1\n ip access-group 101 in\n ip port access-group 101 out\n\
                interface gi1\n no ip port access-group 101 in\n";
    let expected = [
        one("Serial0/0.1", "102", Direction::In),
        one("Serial0/0.1", "SIX", Direction::In),
        one("Gi1", "101", Direction::In),
        one("Gi1", "101", Direction::Out),
    ];
    assert_eq!(applied(text), expected);
    // Applied again, and in commands of other systems.
    let text = "interface Vlan1\n no ip access-group A in\n ip access-group A in\n\
                interface Ethernet1/1\n ip port access-group A in\n no ip port access-group A in\n";
    assert_eq!(applied(text), [one("Vlan1", "A", Direction::In)]);
}

#[test]
fn what_asa_takes_back_is_applied_no_more() {
    let text = "ASA Version 9.12(4)\n\
                access-list A extended permit ip any any\n\
                access-group A in interface outside\n\
                access-group A out interface outside\n\
                access-group A global\n\
                access-group B in interface outside control-plane\n\
                no access-group A out interface outside\n\
                no access-group A global\n";
    assert_eq!(applied(text), [one("outside", "A", Direction::In)]);
    for block in ["interface Gi0/1\n nameif dmz\n", "object-group network G\n host 10.0.0.1\n"] {
        let text = format!("{text}{block}!\nno access-group A in interface outside\n");
        assert_eq!(applied(&text), [], "{block}");
    }
}

#[test]
fn entries_of_a_standard_list_of_asa_are_of_destinations() {
    let text = "access-list S remark behind the tunnel\n\
                access-list S standard permit 10.0.0.0 255.0.0.0\n\
                access-list S standard permit host 192.0.2.1\n\
                access-list S standard deny any4\n";
    let catalogue = open(Format::Cisco, text, &Options::default()).unwrap();
    let rules = catalogue.read(0).unwrap().list.list.to_string();
    let expected = "ip filter 20 pass * 10.0.0.0/8 * * *\n\
                    ip filter 30 pass * 192.0.2.1 * * *\n\
                    ip filter 40 reject-nolog * * * * *\n";
    assert_eq!(rules, expected);
    let text = "access-list S standard permit tcp any any\n";
    let catalogue = open(Format::Cisco, text, &Options::default()).unwrap();
    assert_eq!(catalogue.read(0).unwrap_err().line, 1);
}
