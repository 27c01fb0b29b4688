# A child in Perl: it runs the task perl.words. Standard modules only.
#
# One JSON line in, one JSON line out, one task at a time. Standard output belongs to the protocol; whatever is printed
# to standard error lands in the worker's log, beside the task's id.
use strict;
use warnings;
use JSON::PP;

my $json = JSON::PP->new->utf8->canonical;
$| = 1;    # every line leaves at once

my %handlers = (
    'perl.words' => sub {
        my ($payload, $order) = @_;
        die { invalid => "text must be a string" } if !defined $payload->{text} || $payload->{text} !~ /\D/;
        if ($payload->{fail}) {
            print STDERR "asked to fail\n";
            die { error => "asked to fail" };
        }
        my @words = split ' ', $payload->{text};
        return { words => \@words, count => scalar @words, attempt => $order->{attempt} };
    },
);

print qq({"v":1}\n);    # ready

while (my $line = <STDIN>) {
    my $order = $json->decode($line);
    last if $order->{do} eq 'stop';
    next if $order->{do} ne 'run';    # a cancel that came too late
    print $json->encode({ v => 1, id => $order->{id}, claim_no => $order->{claim_no}, %{ answer($order) } }), "\n";
}

sub answer {
    my ($order) = @_;
    my $handler = $handlers{ $order->{task_type} };
    return { success => JSON::PP::false, error => "no handler for $order->{task_type}", final => JSON::PP::true } if !$handler;
    my $result = eval { $handler->($order->{payload}, $order) };
    return { success => JSON::PP::true, payload => $result } if !$@;
    return { success => JSON::PP::false, error => "$@" } if !ref $@;    # retried by the type's policy
    return { success => JSON::PP::false, validation_failure_message => $@->{invalid} } if $@->{invalid};    # not retried
    return { success => JSON::PP::false, error => $@->{error} };
}
