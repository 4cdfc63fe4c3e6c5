package org.parcelroute.network;

import java.util.HashSet;
import java.util.Optional;
import java.util.Set;

/** Finds the fastest way through a network. */
public final class Router {

    private final Network network;

    public Router(Network network) {
        this.network = network;
    }

    /** The fastest route, or nothing where no line leads there. */
    public Optional<Route> route(String from, String to) {
        network.depot(to);
        Frontier frontier = new Frontier();
        Set<String> left = new HashSet<>();
        frontier.offer(network.depot(from).code(), null, 0);
        for (Visit visit = frontier.next(); visit != null; visit = frontier.next()) {
            if (visit.depot().equals(to)) {
                return Optional.of(Route.endingIn(visit));
            }
            if (!left.add(visit.depot())) {
                continue;
            }
            for (Network.Link link : network.linksOf(visit.depot())) {
                frontier.offer(link.to, visit, visit.minutes() + link.minutes);
            }
        }
        return Optional.empty();
    }
}
