"""What is made and changed on hosts: sites, machines and the networks between them, and how all of it is undone.

Right here lies what most of the rest has to do with: a run's lab, its stage, sites, what is alike in all machines, what
is found out about a host, and `clean`. Below it, of the lab's own:

changes     what was changed and made, written down before it is so, and put back
commands    how commands run on a site
cpus        which CPUs whoever gets, and what is heard on them
machines    whose kernel a machine runs on, its first process, its control groups
networks    the switch, links and trunks
remote      machines that are reached by a connection
borrowed    machines that are somebody's
image       the lab image

and what one kind of environment is made of: containers, libvirt, mock, qemu, ssh, vagrant, vmware.
"""
