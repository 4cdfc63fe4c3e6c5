package stepinto.probe.program;

import com.sun.jdi.Location;
import com.sun.jdi.Method;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Where methods return a value. */
public final class ReturnPoints {
    private final Map<Method, List<Location>> known = new HashMap<>();

    /** All in a method. */
    public List<Location> of(Method method) {
        List<Location> found = known.get(method);
        if (found == null) {
            found = new ArrayList<>();
            for (int at : new ByteCode(method).returns) {
                found.add(method.locationOfCodeIndex(at));
            }
            known.put(method, found);
        }
        return found;
    }

    /** Those on the line of a place. */
    public List<Location> onLine(Location place) {
        List<Location> found = new ArrayList<>();
        for (Location point : of(place.method())) {
            if (point.lineNumber() == place.lineNumber()) {
                found.add(point);
            }
        }
        return found;
    }
}
